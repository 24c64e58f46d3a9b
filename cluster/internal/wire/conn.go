package wire

import (
	"container/list"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// After a restart, all clients connect at the same time. No connection may lose its place before this node has read
// what the client sent. So if there are too many connections, the oldest one is closed only after some ticks. Ticks are
// counted by a goroutine instead of measured by the clock: while a busy machine does not run this process, none passes.
const (
	tick       = time.Millisecond
	queueGrace = 20 // ticks in which a connection waits for a place in a queue
	// queueStall is the time after which a queue counts as one from which nobody accepts. On a busy machine, the
	// goroutine that accepts may wait for a second, while others compute for TLS.
	queueStall = 2 * time.Second
)

// handshakeGrace returns for how many ticks a connection may at least stay in the handshake. Others wait for its place,
// so the time must be short if few can be in the handshake. If all are silent, three are closed in each tick. With TLS,
// which needs time for computations and round trips, it is one in two ticks.
func handshakeGrace(handshakes int, tls bool) int {
	if tls {
		return max(10, 2*handshakes)
	}
	return max(4, handshakes/3)
}

// replayedConn is a connection whose first bytes were read already.
type replayedConn struct {
	net.Conn
	first []byte
}

func (c *replayedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends what is sent, if the connection can do that alone.
func (c *replayedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// The bounds of a farewell.
const (
	farewellTime  = time.Second
	farewellBytes = 1 << 20
)

// farewell sends a text to a client whose connection is closed next. It discards what the client is still sending: to
// close a connection with unread bytes resets it, and the client might not get the text.
func farewell(conn net.Conn, text string) {
	conn.SetDeadline(time.Now().Add(farewellTime))
	if _, err := io.WriteString(conn, text); err != nil {
		return
	}
	_ = (&replayedConn{Conn: conn}).CloseWrite()
	_, _ = io.CopyN(io.Discard, conn, farewellBytes)
}

// connSet is connections that are closed together.
type connSet struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// track adds a connection, which leaves the set when it is closed. If the set is closed, so is the connection.
func (s *connSet) track(conn net.Conn) (net.Conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, false
	}
	if s.conns == nil {
		s.conns = make(map[net.Conn]struct{})
	}
	t := &trackedConn{Conn: conn, set: s}
	s.conns[t] = struct{}{}
	return t, true
}

func (s *connSet) close() {
	s.mu.Lock()
	s.closed = true
	conns := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

type trackedConn struct {
	net.Conn
	set *connSet
}

func (c *trackedConn) Close() error {
	c.set.mu.Lock()
	delete(c.set.conns, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// maxWaiting is how many connections may wait for Accept. If there are more, the one that has waited longest is
// closed: while a node starts nobody accepts them, and each has a descriptor.
const maxWaiting = 64

// queue is a net.Listener for connections that another listener has accepted.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}

	mu sync.Mutex
	// These are guarded by mu: of chan struct{}, closed to end the wait, the oldest in front; and when one was
	// accepted.
	waiting  list.List
	accepted time.Time
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// enter begins a wait. If too many wait, and nobody accepts them, it ends the oldest wait.
func (q *queue) enter() *list.Element {
	for waited := 0; ; waited++ {
		if e := q.tryEnter(waited >= queueGrace); e != nil {
			return e
		}
		time.Sleep(tick)
	}
}

// tryEnter returns nil if too many wait, and they are not evicted.
func (q *queue) tryEnter(evict bool) *list.Element {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() >= maxWaiting {
		if !evict || time.Since(q.accepted) < queueStall {
			return nil
		}
		close(q.waiting.Remove(q.waiting.Front()).(chan struct{}))
	}
	return q.waiting.PushBack(make(chan struct{}))
}

func (q *queue) leave(e *list.Element, accepted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Remove(e) // nothing happens if it was removed already
	if accepted {
		q.accepted = time.Now()
	}
}

// put hands a connection to Accept. It closes the connection and returns false if either end closes first, or if too
// many others wait. It calls entered when the connection is among those that wait.
func (q *queue) put(conn net.Conn, gone <-chan struct{}, entered func()) bool {
	wait := q.enter()
	entered()
	select {
	case q.conns <- conn:
		q.leave(wait, true)
		return true
	case <-q.closed:
	case <-gone:
	case <-wait.Value.(chan struct{}):
	}
	q.leave(wait, false)
	conn.Close()
	return false
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.addr }
