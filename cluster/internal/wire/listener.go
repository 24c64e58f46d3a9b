package wire

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Options are what Listen needs. Only ID, Address and Logger are required on a loopback address.
type Options struct {
	// ID is the node's, which no other node of its cluster has.
	ID kv.NodeID
	// Incarnation is the node's; 0: it has none until SetIdentity.
	Incarnation uint64
	// Start is the node's present one, which its directory has; zero: it has none until SetIdentity.
	Start Start
	// Met is called with the name and the start of each node that has proved its right to be one, at either end of a
	// connection, before anything passes it. An ErrRolledBack refuses the connection, and tells the node that a start
	// is known which its directory has not had. Another error, as of a full disk, lets only control calls pass, since a
	// node that nobody hears would be replaced. nil: all are right.
	Met func(from Peer, s Start) error
	// RolledBack is called with the error if another node says so of this one. nil: nothing is called.
	RolledBack func(err error)
	// Owner returns the other node whose address addr is, as far as this one knows, or "". Calls to an address that
	// do not say which node they want are refused if they were meant for that one. nil: none is known.
	Owner func(addr string) kv.NodeID
	// Address is the host:port at which the node listens. Port 0 is any free port.
	Address string
	// TLS is for connections that arrive; nil: plain. ClientCAs must be set: it has the CA of the
	// cluster. Each certificate of that CA may act as a peer, unless Secret is set too.
	TLS *tls.Config
	// PeerTLS is for connections to other nodes: their CA in RootCAs, and this node's certificate. It is set if
	// and only if TLS is.
	PeerTLS *tls.Config
	// Secret is shared by all nodes of the cluster, and has at least MinSecret bytes; nil: none.
	Secret []byte
	// Insecure permits addresses other than loopback without TLS and Secret.
	Insecure bool
	// Cluster is the ID of the node's cluster; "": it has none until SetIdentity.
	Cluster string
	Logger  *slog.Logger

	// Loading is what clients are answered until Loaded is called, an error of Redis's protocol without its end of
	// line; "": they wait.
	Loading string

	// HandshakeTimeout bounds the time until a connection is authenticated. Default 5 s.
	HandshakeTimeout time.Duration
	// MaxHandshakes is how many connections may be in the handshake at a time. If there are more, the one that has
	// waited longest is handed over as a client if it was silent, and otherwise closed, unless it has only just come.
	// Default 512.
	MaxHandshakes int
	// StallTimeout ends a call's connection if the other side takes no byte of a message, or sends none of
	// one that has begun, for so long. Default 30 s.
	StallTimeout time.Duration

	// Foreign is called when a node of another cluster has proved its right to connect and wants this one, by its ID.
	// It must not block. nil: nothing is called.
	Foreign func(from Peer)

	// Errors are further errors that keep their identity across the wire, by code.
	Errors map[string]error

	// Dial replaces the dialer, and Accepted wraps accepted connections; both below TLS. Tests cut connections by them.
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	Accepted func(net.Conn) net.Conn
	// Bind replaces the listener of the system below TLS, for tests without its network.
	Bind func(addr string) (net.Listener, error)
}

// MinSecret is the length of the shortest secret.
const MinSecret = 16

// DefaultMaxHandshakes is the default of MaxHandshakes.
const DefaultMaxHandshakes = 512

func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		return o, errors.New("wire: Logger is nil")
	}
	if !o.ID.Valid() {
		return o, fmt.Errorf("wire: the ID %q is not valid", o.ID)
	}
	if o.Owner == nil {
		o.Owner = func(string) kv.NodeID { return "" }
	}
	if o.Met == nil {
		o.Met = func(Peer, Start) error { return nil }
	}
	if n := len(o.Secret); n > 0 && n < MinSecret {
		return o, fmt.Errorf("the secret of the cluster has %d bytes, at least %d are required", n, MinSecret)
	}
	if (o.TLS == nil) != (o.PeerTLS == nil) {
		return o, errors.New("TLS needs both a configuration for the listener and one for connections to peers")
	}
	if o.TLS != nil {
		if o.TLS.ClientCAs == nil {
			// Without it, crypto/tls would accept the certificates of every public CA.
			return o, errors.New("TLS needs the CA of the cluster, by which peers are verified")
		}
		o.TLS = o.TLS.Clone()
		if o.TLS.ClientAuth < tls.VerifyClientCertIfGiven {
			o.TLS.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 5 * time.Second
	}
	if o.MaxHandshakes <= 0 {
		o.MaxHandshakes = DefaultMaxHandshakes
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = 30 * time.Second
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if o.Bind == nil {
		o.Bind = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	return o, nil
}

// Listener is the listener of a node.
type Listener struct {
	o       Options
	ln      net.Listener
	limit   int // of the bytes of a request or response
	clients *queue
	pool    pool
	control connSet // accepted connections of control calls
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	once    sync.Once
	ticks   int               // for which accept has waited; see enter
	process [processSize]byte // of this Listener and no other
	loaded  atomic.Bool

	mu       sync.Mutex
	cluster  clusterSum
	self     speaker
	groups   map[kv.GroupID]*Stream
	handlers map[string]handler
	pending  list.List // of pendingConn; the oldest is in front
	refusals refusals
	versions versions
	handing  int // connections that have left pending and wait for room where they are accepted
}

// pendingConn is a connection in the handshake.
type pendingConn struct {
	net.Conn
	since int // ticks of the accepting goroutine before it
}

// Listen begins to listen.
func Listen(o Options) (*Listener, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	addr, err := net.ResolveTCPAddr("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", o.Address, err)
	}
	if o.TLS == nil && len(o.Secret) == 0 && !o.Insecure && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("listen at %s: without TLS and without a secret only loopback addresses are safe: "+
			"set TLS or a secret for the nodes, or listen at 127.0.0.1", o.Address)
	}
	ln, err := o.Bind(addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", o.Address, err)
	}
	l := &Listener{
		o: o, ln: ln, limit: MaxMessage, clients: newQueue(ln.Addr()),
		groups: make(map[kv.GroupID]*Stream), handlers: make(map[string]handler), cluster: sumOf(o.Cluster),
		self: speaker{Peer{o.ID, o.Incarnation}, o.Start},
	}
	rand.Read(l.process[:])
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Add(1)
	go l.accept()
	return l, nil
}

// Addr returns the address at which it listens.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Clients returns a listener for the connections of clients. Closing it refuses further clients, and nothing else.
func (l *Listener) Clients() net.Listener { return l.clients }

// SetIdentity says which cluster the node belongs to from now on, its incarnation, and its start. Idle connections for
// calls are closed: some may be to nodes of other clusters, which had a request as well, and others learn the start.
func (l *Listener) SetIdentity(cluster string, incarnation uint64, start Start) {
	l.mu.Lock()
	l.cluster, l.self = sumOf(cluster), speaker{Peer{l.self.ID, incarnation}, start}
	l.mu.Unlock()
	l.pool.drop()
}

// Close closes the listener, the streams of groups and all connections of peers. Connections that Clients has
// returned stay open. It waits for the handlers of calls.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() {
		l.mu.Lock()
		l.cancel()
		streams := make([]*Stream, 0, len(l.groups))
		for _, s := range l.groups {
			streams = append(streams, s)
		}
		for e := l.pending.Front(); e != nil; e = e.Next() {
			e.Value.(pendingConn).Close()
		}
		l.mu.Unlock()

		err = l.ln.Close()
		l.clients.Close()
		for _, s := range streams {
			s.Close()
		}
		l.control.close()
		l.pool.close()
	})
	l.wg.Wait()
	return err
}

func (l *Listener) isClosed() bool { return l.ctx.Err() != nil }

func (l *Listener) accept() {
	defer l.wg.Done()
	delay := time.Duration(0)
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if l.isClosed() {
				return
			}
			// Such as too many open files: others may be closed soon.
			delay = longer(delay)
			l.o.Logger.Warn("accept a connection", "error", err, "retry", delay)
			select {
			case <-l.ctx.Done():
			case <-time.After(delay):
			}
			continue
		}
		delay = 0
		if l.o.Accepted != nil {
			conn = l.o.Accepted(conn)
		}
		entry, ok := l.enter(conn)
		if !ok {
			conn.Close()
			return
		}
		conn.SetDeadline(time.Now().Add(l.o.HandshakeTimeout)) // here, so that it cannot undo that of enter
		l.wg.Go(func() { l.serve(conn, entry) })
	}
}

// longer is the wait after another failure in a row.
func longer(delay time.Duration) time.Duration {
	return min(max(2*delay, 5*time.Millisecond), time.Second)
}

// serve authenticates a connection and hands it to its user.
func (l *Listener) serve(raw net.Conn, entry *list.Element) {
	next, err := l.handshake(raw)
	if err != nil {
		l.leave(entry)
		raw.Close()
		l.logRefusal(raw, err)
		return
	}
	l.mu.Lock()
	l.pending.Remove(entry)
	l.handing++
	l.mu.Unlock()
	next(func() {
		l.mu.Lock()
		l.handing--
		l.mu.Unlock()
	})
}

// enter counts a connection among those in the handshake. If there are too many, it waits until one leaves, or until
// the oldest one has had its time, and lets that one's time end: it is a client if it has sent nothing, such as one of
// a pool that opens its connections in advance, and is closed otherwise. New connections wait in the system's queue
// until then. enter returns false if the listener is closed. Only accept calls it.
func (l *Listener) enter(conn net.Conn) (*list.Element, bool) {
	grace := handshakeGrace(l.o.MaxHandshakes, l.o.TLS != nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending.Len()+l.handing >= l.o.MaxHandshakes && !l.isClosed() {
		if oldest := l.pending.Front(); oldest != nil && l.ticks-oldest.Value.(pendingConn).since >= grace {
			l.pending.Remove(oldest).(pendingConn).SetReadDeadline(time.Unix(1, 0))
			continue
		}
		l.mu.Unlock()
		time.Sleep(tick)
		l.mu.Lock()
		l.ticks++
	}
	if l.isClosed() {
		return nil, false
	}
	return l.pending.PushBack(pendingConn{conn, l.ticks}), true
}

func (l *Listener) leave(e *list.Element) {
	l.mu.Lock()
	l.pending.Remove(e) // nothing happens if it was removed already
	l.mu.Unlock()
}

// handshake finds out what a connection is for. The function that it returns hands it over, and calls left when the
// connection no longer counts among those in the handshake.
func (l *Listener) handshake(raw net.Conn) (func(left func()), error) {
	conn := raw
	if l.o.TLS != nil {
		t := tls.Server(raw, l.o.TLS)
		if err := t.HandshakeContext(l.ctx); err != nil {
			refusePlain(err)
			return nil, err
		}
		conn = t
	}
	first := make([]byte, 1)
	n, err := conn.Read(first)
	if n == 0 {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return func(left func()) { l.serveClient(conn, left) }, nil // a silent client; TLS survives timeouts of reads
		}
		return nil, err
	}
	if first[0] != magic[0] {
		if l.o.Loading != "" && !l.loaded.Load() {
			return func(left func()) { left(); l.answerLoading(conn) }, nil
		}
		return func(left func()) { l.serveClient(&replayedConn{Conn: conn, first: first}, left) }, nil
	}
	var s *Stream
	h, secured, err := admit(conn, first, l.o.Secret, func(h *hello) (status byte, self speaker) {
		status, self, s = l.judge(h)
		if status == statusAccepted {
			status = l.meet(h)
		}
		return status, self
	})
	if errors.Is(err, errMagic) {
		farewell(conn, "-ERR Protocol error: the first byte is 0x00, with which only nodes of a cluster begin\r\n")
	}
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	if h.kind == kindControl {
		return func(left func()) { left(); l.serveControl(secured) }, nil
	}
	return func(left func()) { s.serve(secured, h.kind, l.ctx.Done(), left) }, nil
}

// isStart reports whether a start is the present one still. If not, the next one may have overtaken it on another way.
func (l *Listener) isStart(s Start) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.self.Number == s.Number
}

// meeter returns what asks Options.Met about the other end of a connection.
func (l *Listener) meeter(kind byte) meeter {
	return func(from Peer, s Start) error {
		err := l.o.Met(from, s)
		if kind == kindControl && !errors.Is(err, ErrRolledBack) {
			return nil
		}
		return err
	}
}

// meet asks Options.Met about a dialer.
func (l *Listener) meet(h *hello) (status byte) {
	switch err := l.meeter(h.kind)(h.from, h.start); {
	case err == nil:
		return statusAccepted
	case errors.Is(err, ErrRolledBack):
		return statusRolledBack
	}
	return statusForgetful
}

// judge decides whether a connection is accepted, and finds the group that it is for.
func (l *Listener) judge(h *hello) (byte, speaker, *Stream) {
	owner := kv.NodeID("")
	if h.to.ID == "" && h.addr != l.Addr().String() {
		owner = l.o.Owner(h.addr)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	joins := h.kind == kindControl && h.cluster == clusterSum{}
	switch {
	case h.process == l.process:
		return statusSelf, l.self, nil
	case h.cluster != l.cluster && !joins:
		if l.o.Foreign != nil && h.to.ID == l.self.ID && l.cluster != (clusterSum{}) {
			from := h.from
			l.wg.Go(func() { l.o.Foreign(from) })
		}
		return statusCluster, l.self, nil
	case h.from.ID == l.self.ID:
		return statusTwin, l.self, nil
	case !l.self.is(h.to) || h.kind != kindControl && h.to.ID == "":
		return statusPeer, l.self, nil
	case owner != "" && owner != l.self.ID:
		return statusAddr, l.self, nil
	}
	switch h.kind {
	case kindControl:
		return statusAccepted, l.self, nil
	case kindRaft, kindConfirm:
		if s := l.groups[h.group]; s != nil {
			return statusAccepted, l.self, s
		}
		return statusGroup, l.self, nil
	}
	return statusKind, l.self, nil
}

// refusePlain answers a client that speaks without TLS to a listener that needs it.
func refusePlain(err error) {
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil && header.RecordHeader[0] != magic[0] {
		farewell(header.Conn, "-ERR this node speaks TLS only: connect with TLS\r\n")
	}
}

func (l *Listener) serveClient(conn net.Conn, left func()) {
	conn.SetDeadline(time.Time{})
	l.clients.put(conn, l.ctx.Done(), left)
}

// Loaded ends Options.Loading.
func (l *Listener) Loaded() { l.loaded.Store(true) }

// answerLoading answers the request of a client, of which a part has arrived, and closes the connection. The deadline
// is that of the handshake.
func (l *Listener) answerLoading(conn net.Conn) {
	_, _ = conn.Write([]byte("-" + l.o.Loading + "\r\n"))
	_, _ = conn.Read(make([]byte, 4<<10)) // closing with unread bytes resets the connection, and the answer may be lost
	conn.Close()
}

// dialPeer connects to another node and does the handshake.
func (l *Listener) dialPeer(ctx context.Context, to Target, kind byte, group kv.GroupID) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() // Close must not wait for a dial
	if l.isClosed() {
		return nil, net.ErrClosed
	}
	raw, err := l.o.Dial(ctx, to.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to node %s: %w", to, err)
	}
	conn, err := l.greetPeer(ctx, raw, to, kind, group)
	if err != nil {
		raw.Close()
		l.noteVersion(err, true, to.Addr)
		return nil, fmt.Errorf("connect to node %s: %w", to, err)
	}
	return conn, nil
}

func (l *Listener) greetPeer(ctx context.Context, raw net.Conn, to Target, kind byte, group kv.GroupID) (net.Conn, error) {
	deadline := time.Now().Add(l.o.HandshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	conn := raw
	if l.o.PeerTLS != nil {
		config := l.o.PeerTLS
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(to.Addr)
			if err != nil {
				return nil, err
			}
			config = config.Clone()
			config.ServerName = host
		}
		t := tls.Client(raw, config)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = t
	}
	l.mu.Lock()
	h := hello{kind: kind, group: group, cluster: l.cluster, process: l.process, from: l.self.Peer, to: to.Peer, addr: to.Addr, start: l.self.Start}
	l.mu.Unlock()
	secured, err := greet(conn, h, l.o.Secret, l.meeter(kind))
	if errors.Is(err, ErrRolledBack) && l.o.RolledBack != nil && l.isStart(h.start) {
		l.o.RolledBack(err)
	}
	if err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return secured, conn.SetDeadline(time.Time{})
}
