package nemesis

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// staleness checks the ages of answers after READONLY by the clock of this process. A client writes ascending numbers
// to a key, one after the other. An answer with a number is too old if a later number had been acknowledged longer than
// the bound before the question was sent.
type staleness struct {
	bound time.Duration
	key   string
	dial  dialer
	nodes func() []string

	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// These are guarded by mu.
	acked  map[int]time.Time // when the write of a number was acknowledged
	last   int               // the largest number that was
	counts staleCounts
}

// staleCounts are what staleness has seen.
type staleCounts struct {
	Answers, Refused, TooOld int
	Oldest                   time.Duration // the largest age of an answer, as far as it is certain
}

func (s staleCounts) String() string {
	return fmt.Sprintf("%d stale answers, %d too old, the oldest by %s; %d refused",
		s.Answers, s.TooOld, s.Oldest, s.Refused)
}

// begin lets a client write, and one ask each node.
func (s *staleness) begin() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.acked = map[int]time.Time{}
	s.running.Go(func() { s.write(ctx) })
	for _, addr := range s.nodes() {
		s.running.Go(func() { s.read(ctx, addr) })
	}
}

// end stops the clients and returns what they saw.
func (s *staleness) end() staleCounts {
	s.stop()
	s.running.Wait()
	return s.counts
}

// staleTimeout is how long the clients wait for a reply: not long, so that each question is young.
const staleTimeout = 200 * time.Millisecond

// ask sends a request to a node over a connection that is open, or over a new one, after first. It waits so long for a
// connection and for the reply.
func ask(ctx context.Context, wait time.Duration, dial dialer, cn **conn, addr string, first, request []string) (reply, error) {
	requests := [][]string{request}
	if *cn == nil {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		nc, err := dial(ctx, addr)
		if err != nil {
			return reply{}, err
		}
		*cn = &conn{nc: nc, r: bufio.NewReader(nc)}
		if first != nil {
			requests = [][]string{first, request}
		}
	}
	replies, _, err := (*cn).call(time.Now().Add(wait), requests...)
	if err != nil {
		_ = (*cn).nc.Close()
		*cn = nil
		return reply{}, err
	}
	return replies[len(replies)-1], nil
}

// write writes numbers. One of unknown outcome is not written again.
func (s *staleness) write(ctx context.Context) {
	conns := map[string]*conn{}
	nodes := s.nodes()
	addr := nodes[0]
	for n := 1; ctx.Err() == nil; n++ {
		cn := conns[addr]
		r, err := ask(ctx, staleTimeout, s.dial, &cn, addr, nil, []string{"SET", s.key, strconv.Itoa(n)})
		conns[addr] = cn
		switch _, to, moved := strings.Cut(strings.TrimPrefix(r.err, "MOVED "), " "); {
		case err == nil && r.err == "":
			s.mu.Lock()
			s.acked[n], s.last = time.Now(), n
			s.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		case err == nil && moved && strings.HasPrefix(r.err, "MOVED "):
			addr = to
		default:
			addr = nodes[n%len(nodes)]
			time.Sleep(5 * time.Millisecond)
		}
	}
	for _, cn := range conns {
		if cn != nil {
			_ = cn.nc.Close()
		}
	}
}

// read asks a node again and again.
func (s *staleness) read(ctx context.Context, addr string) {
	var cn *conn
	for ctx.Err() == nil {
		begin := time.Now()
		r, err := ask(ctx, staleTimeout, s.dial, &cn, addr, []string{"READONLY"}, []string{"GET", s.key})
		if err == nil {
			s.judge(begin, r)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if cn != nil {
		_ = cn.nc.Close()
	}
}

// judge checks the age of an answer to a question that was sent at a time.
func (s *staleness) judge(begin time.Time, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.err != "" {
		s.counts.Refused++
		return
	}
	n, err := strconv.Atoi(r.text)
	if r.null {
		n, err = 0, nil
	}
	if _, known := s.acked[n]; err != nil || n > 0 && !known {
		return // the outcome of its write is unknown, so it may be newer than later ones
	}
	s.counts.Answers++
	for next := n + 1; next <= s.last; next++ {
		at, acked := s.acked[next]
		if !acked {
			continue
		}
		age := begin.Sub(at)
		s.counts.Oldest = max(s.counts.Oldest, age)
		if age > s.bound {
			s.counts.TooOld++
		}
		return
	}
}
