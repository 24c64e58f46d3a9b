// Package server answers the clients of a node in Redis's protocol, RESP 2 and 3.
//
// Each connection has a goroutine. It reads what has arrived, evaluates the requests in their order, and
// sends the replies in that order. Writes of a pipeline are replicated together: each is evaluated by
// kv.Group.Update at once, and before replies are sent the server waits for the commits of all. Reads
// that follow each other are evaluated by one kv.Group.View, after the writes before them are committed.
//
// A client can make the server hold one request, one queue of MULTI, one reply and a mebibyte of further
// replies; see Options. What all clients make it hold has a bound together, see budget. A reply that is not accepted in
// time ends the connection, and so does a request that is not completed in time.
//
// If there is a password, a connection that has not given it has little: a place among MaxUnauthenticated, which it
// loses to a newer one, small requests, and a short time. Wrong passwords are answered late and are counted by
// the address from which they come.
package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Server serves the clients of a node. Its methods may be called by any goroutine.
type Server struct {
	cluster kv.Cluster
	node    *command.Node
	options Options
	started time.Time

	// ctx ends when connections must end at once.
	ctx    context.Context
	cancel context.CancelFunc
	conns  sync.WaitGroup
	stats  stats

	guesses  guesses
	live     live
	commands commandStats
	slow     slowLog
	events   latencyEvents
	base     atomic.Pointer[Stats] // when CONFIG RESETSTAT was called; INFO counts from then on
	memory   budget                // of all clients
	large    largeKeys
	// now and pause are the clock. Tests replace them.
	now   func() time.Time
	pause func(d time.Duration, gone <-chan struct{})

	mu sync.Mutex
	// These are guarded by mu.
	closing   bool
	listeners map[net.Listener]bool
	places    places
}

// stats are counted for INFO and for Stats.
type stats struct {
	connections, rejected, commands, protocolErrors, nextID atomic.Int64
	evicted, timedOut, wrongPasswords, memoryWaits, shed    atomic.Int64
}

// Stats are counts of what a Server did.
type Stats struct {
	Clients          int   // connected now
	Unauthenticated  int   // of these, those that have to authenticate
	Connections      int64 // accepted since the start
	Rejected         int64 // because of MaxClients
	Evicted          int64 // strangers, for newer connections; see places
	TimedOut         int64 // because of AuthTimeout, RequestTimeout or IdleTimeout
	WrongPasswords   int64
	Commands         int64
	ProtocolErrors   int64
	ClientBytes      int64 // now; see ClientBytes of Options
	ClientBytesLimit int64
	MemoryWaits      int64 // of connections, for ClientBytes
	Shed             int64 // clients that were closed for ClientBytes
}

// New returns a Server of a node's clients.
func New(cluster kv.Cluster, o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	o = o.withDefaults()
	s := &Server{
		cluster: cluster, node: command.NewNode(cluster), options: o, started: time.Now(),
		ctx: ctx, cancel: cancel, listeners: map[net.Listener]bool{}, places: places{all: map[*conn]bool{}},
		guesses: guesses{logger: o.Logger}, now: time.Now, pause: pause,
		commands: newCommandStats(), slow: slowLog{most: defaultSlowMost},
	}
	s.memory.limit.Store(o.ClientBytes)
	s.live.init(&s.options)
	s.base.Store(&Stats{})
	return s
}

// resetStats makes the counts of INFO and LATENCY HISTOGRAM begin at 0. Those of Stats go on.
func (s *Server) resetStats() {
	now := s.Stats()
	s.base.Store(&now)
	for _, stat := range s.commands.byName {
		stat.reset()
	}
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	unauthenticated := 0
	if s.options.Password != "" {
		unauthenticated = s.places.strangers.Len()
	}
	return Stats{
		Unauthenticated: unauthenticated,
		Clients:         len(s.places.all),
		Connections:     s.stats.connections.Load(), Rejected: s.stats.rejected.Load(), Evicted: s.stats.evicted.Load(),
		TimedOut: s.stats.timedOut.Load(), WrongPasswords: s.stats.wrongPasswords.Load(),
		Commands: s.stats.commands.Load(), ProtocolErrors: s.stats.protocolErrors.Load(),
		ClientBytes: s.memory.used.Load(), ClientBytesLimit: s.memory.limit.Load(),
		MemoryWaits: s.stats.memoryWaits.Load(), Shed: s.stats.shed.Load(),
	}
}

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("the server is closed")

// Serve accepts connections until Close, and then returns ErrClosed. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.track(l) {
		return ErrClosed
	}
	delay := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err == nil {
			delay = 0
			s.accept(nc)
			continue
		}
		if s.isClosing() {
			return ErrClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Such as too many open files: others may be closed soon.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		s.options.Logger.Warn("a connection cannot be accepted", "error", err, "retry", delay)
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
		}
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.listeners[l] = true
	}
	return !s.closing
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Close stops accepting, lets the requests that have arrived be answered, and closes the connections. It
// waits for that at most as long as a write may take; then it closes them anyway.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closing = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.places.all {
		c.interrupt()
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.conns.Wait()
		close(done)
	}()
	patience := time.NewTimer(max(s.options.WriteTimeout, s.options.ReadTimeout, s.options.ScanTimeout) + time.Second)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
	s.cancel()
	s.mu.Lock()
	for c := range s.places.all {
		c.hangUp()
	}
	s.mu.Unlock()
	<-done
	return nil
}
