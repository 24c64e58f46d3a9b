package nettest

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Memory is a network in memory. In a bubble of testing/synctest, time passes while all wait for it, as it does not for
// the network of the system. A Write does not wait for its Read: what is on its way has no bound.
type Memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by address
	ports     int                        // chosen so far
	dials     int
}

// Listen listens at an address, whose port is a new one if it is 0.
func (m *Memory) Listen(addr string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for choose := at.Port == 0; choose; choose = m.listeners[at.String()] != nil {
		m.ports++
		at.Port = 20_000 + m.ports%40_000
	}
	if m.listeners == nil {
		m.listeners = map[string]*memoryListener{}
	}
	if m.listeners[at.String()] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: syscall.EADDRINUSE}
	}
	l := &memoryListener{m: m, at: at, conns: make(chan net.Conn, 128), closed: make(chan struct{})}
	m.listeners[at.String()] = l
	return l, nil
}

// Dial connects to a listener of this network.
func (m *Memory) Dial(ctx context.Context, addr string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[addr]
	m.dials++
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 60_000 + m.dials%5_000}
	m.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect "+strconv.Quote(addr), syscall.ECONNREFUSED)}
	}
	there, back := newFlow(), newFlow()
	c := &MemoryConn{in: there, out: back, local: l.at, remote: from}
	select {
	case l.conns <- c:
		select {
		case <-l.closed: // perhaps after it has ended those in conns
			c.Close()
		default:
		}
		return &MemoryConn{in: back, out: there, local: from, remote: l.at}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type memoryListener struct {
	m      *Memory
	at     *net.TCPAddr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also ends the connections that nobody has accepted.
func (l *memoryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.m.mu.Lock()
		delete(l.m.listeners, l.at.String())
		l.m.mu.Unlock()
		for {
			select {
			case c := <-l.conns:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return l.at }

// flow is what is on its way from one end to the other.
type flow struct {
	mu      sync.Mutex
	changed sync.Cond
	b       []byte
	held    bool  // b stays on its way
	err     error // of the end that reads, once b is empty
	by      time.Time
	alarm   *time.Timer
}

func newFlow() *flow {
	f := &flow{}
	f.changed.L = &f.mu
	return f
}

func (f *flow) read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.err == net.ErrClosed:
			return 0, f.err
		case !f.by.IsZero() && !time.Now().Before(f.by):
			return 0, os.ErrDeadlineExceeded
		case len(f.b) > 0 && f.held:
		case len(f.b) > 0:
			n := copy(p, f.b)
			f.b = f.b[n:]
			return n, nil
		case f.err != nil:
			return 0, f.err
		}
		f.changed.Wait()
	}
}

func (f *flow) write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, syscall.EPIPE
	}
	f.b = append(f.b, p...)
	f.changed.Broadcast()
	return len(p), nil
}

// end ends the flow, for the reader with an error. What is held is lost.
func (f *flow) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held {
		f.b = nil
	}
	if f.err == nil || err == net.ErrClosed {
		f.err = err
	}
	if f.alarm != nil {
		f.alarm.Stop()
	}
	f.changed.Broadcast()
}

func (f *flow) hold(held bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
	f.changed.Broadcast()
}

func (f *flow) readBy(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.by = t
	if f.alarm != nil {
		f.alarm.Stop()
		f.alarm = nil
	}
	if f.err == nil && !t.IsZero() {
		f.alarm = time.AfterFunc(time.Until(t), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changed.Broadcast()
		})
	}
	f.changed.Broadcast()
}

// MemoryConn is an end of a connection.
type MemoryConn struct {
	in, out       *flow
	local, remote net.Addr
}

// Hold keeps what this end sends, and what it receives, on its way until another call lets it pass.
func (c *MemoryConn) Hold(sent, received bool) {
	c.out.hold(sent)
	c.in.hold(received)
}

func (c *MemoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *MemoryConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *MemoryConn) Close() error {
	c.in.end(net.ErrClosed)
	c.out.end(io.EOF)
	return nil
}

// CloseWrite ends what this end sends.
func (c *MemoryConn) CloseWrite() error {
	c.out.end(io.EOF)
	return nil
}

func (c *MemoryConn) LocalAddr() net.Addr  { return c.local }
func (c *MemoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *MemoryConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *MemoryConn) SetReadDeadline(t time.Time) error {
	c.in.readBy(t)
	return nil
}

// SetWriteDeadline has no effect, since no Write waits.
func (c *MemoryConn) SetWriteDeadline(time.Time) error { return nil }
