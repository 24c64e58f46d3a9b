package wire

import (
	"net"
	"sync"
)

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

// NetConn returns the connection below, a *tls.Conn if there is TLS.
func (c *replayedConn) NetConn() net.Conn { return c.Conn }

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

// queue is a net.Listener for connections that another listener has accepted.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// put hands a connection to Accept. It closes the connection and returns false if either end closes first.
func (q *queue) put(conn net.Conn, gone <-chan struct{}) bool {
	select {
	case q.conns <- conn:
		return true
	case <-q.closed:
	case <-gone:
	}
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
