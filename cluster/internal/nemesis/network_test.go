package nemesis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// network connects the nodes of one process. What a node dials goes through it, so that links can be cut and
// slowed, each direction by itself. A cut link keeps what is sent until it is healed, as TCP does; then
// the bytes arrive late, or the connection is reset.
//
// Nodes have addresses that do not exist; the network knows where each listens now. So a restarted
// node has its old address, and the port of a killed one need not be free.
type network struct {
	mu sync.Mutex
	// These are guarded by mu.
	changed chan struct{} // closed and replaced when links change
	cut     map[link]bool
	slow    map[link]time.Duration
	hosts   map[string]*host // of the nodes that run, by their address
	pipes   map[*pipe]bool
}

// link is one direction between two nodes, by their addresses.
type link struct{ from, to string }

func newNetwork() *network {
	return &network{
		changed: make(chan struct{}), cut: map[link]bool{}, slow: map[link]time.Duration{},
		hosts: map[string]*host{}, pipes: map[*pipe]bool{},
	}
}

// host is the network's view of a running node.
type host struct {
	net  *network
	addr string

	mu       sync.Mutex
	real     string // where it listens
	dead     bool
	accepted map[net.Conn]bool
	frozen   chan struct{} // closed when it continues; nil: it runs
}

func (n *network) host(addr string) *host {
	return &host{net: n, addr: addr, accepted: map[net.Conn]bool{}}
}

// up makes a host reachable.
func (h *host) up(real string) {
	h.mu.Lock()
	h.real = real
	h.mu.Unlock()
	h.net.mu.Lock()
	h.net.hosts[h.addr] = h
	h.net.mu.Unlock()
}

var errDead = errors.New("this node was killed")

// down makes a host unreachable, for ever: no byte leaves it or arrives any more.
func (h *host) down() {
	h.mu.Lock()
	h.dead = true
	h.thawLocked()
	for c := range h.accepted {
		_ = c.Close()
	}
	h.mu.Unlock()
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[h.addr] == h {
		delete(n.hosts, h.addr)
	}
	for p := range n.pipes {
		if p.dialer == h {
			p.close()
		}
	}
}

// wrap is node.Options.Accepted.
func (h *host) wrap(c net.Conn) net.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		_ = c.Close()
		return c
	}
	h.accepted[c] = true
	return &acceptedConn{Conn: c, host: h}
}

type acceptedConn struct {
	net.Conn
	host *host
}

func (c *acceptedConn) Close() error {
	c.host.mu.Lock()
	delete(c.host.accepted, c.Conn)
	c.host.mu.Unlock()
	return c.Conn.Close()
}

// Read holds what arrives while the host is frozen.
func (c *acceptedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.host.mu.Lock()
	frozen := c.host.frozen
	c.host.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return n, err
}

// freeze keeps what others send over connections that they have opened, until thaw.
func (h *host) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen == nil && !h.dead {
		h.frozen = make(chan struct{})
	}
}

func (h *host) thaw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.thawLocked()
}

func (h *host) thawLocked() {
	if h.frozen != nil {
		close(h.frozen)
		h.frozen = nil
	}
}

// find returns where an address is now.
func (n *network) find(addr string) (string, error) {
	n.mu.Lock()
	h := n.hosts[addr]
	n.mu.Unlock()
	if h == nil {
		return "", fmt.Errorf("connect to %s: connection refused", addr)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.real, nil
}

// dialClient connects a client, which reaches all nodes.
func (n *network) dialClient(ctx context.Context, addr string) (net.Conn, error) {
	real, err := n.find(addr)
	if err != nil {
		return nil, err
	}
	return dialTCP(ctx, real)
}

// dial is node.Options.Dial.
func (h *host) dial(ctx context.Context, addr string) (net.Conn, error) {
	for _, l := range []link{{h.addr, addr}, {addr, h.addr}} { // the handshake of TCP needs both
		if err := h.net.wait(l, ctx.Done()); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
	}
	real, err := h.net.find(addr)
	if err != nil {
		return nil, err
	}
	outer, err := dialTCP(ctx, real)
	if err != nil {
		return nil, err
	}
	return h.net.connect(h, addr, outer)
}

var errWaited = errors.New("the wait for a link has ended")

// wait waits until a link is not cut.
func (n *network) wait(l link, stop <-chan struct{}) error {
	for {
		n.mu.Lock()
		cut, changed := n.cut[l], n.changed
		n.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-changed:
		case <-stop:
			return errWaited
		}
	}
}

// change changes links.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// cutLinks cuts links.
func (n *network) cutLinks(links ...link) {
	n.change(func() {
		for _, l := range links {
			n.cut[l] = true
		}
	})
}

// mendLinks restores some links. What was sent over them arrives.
func (n *network) mendLinks(links ...link) {
	n.change(func() {
		for _, l := range links {
			delete(n.cut, l)
		}
	})
}

// slowLinks delays what is sent over links.
func (n *network) slowLinks(d time.Duration, links ...link) {
	n.change(func() {
		for _, l := range links {
			n.slow[l] = d
		}
	})
}

// heal restores all links. If reset is true, connections over links that were cut are reset.
func (n *network) heal(reset bool) {
	n.change(func() {
		for p := range n.pipes {
			if reset && (n.cut[p.out] || n.cut[p.in]) {
				p.close()
			}
		}
		n.cut, n.slow = map[link]bool{}, map[link]time.Duration{}
	})
}

// pipe is a connection that a node dialed.
type pipe struct {
	net          *network
	dialer       *host
	out, in      link
	inner, outer net.Conn // the end that the node's own is connected to, and the real connection
	once         sync.Once
	stop         chan struct{}
}

func (n *network) connect(h *host, addr string, outer net.Conn) (net.Conn, error) {
	end, inner := net.Pipe()
	p := &pipe{
		net: n, dialer: h, out: link{h.addr, addr}, in: link{addr, h.addr}, inner: inner, outer: outer, stop: make(chan struct{}),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return nil, errors.Join(errDead, outer.Close(), inner.Close())
	}
	n.mu.Lock()
	n.pipes[p] = true
	n.mu.Unlock()
	go p.pump(inner, outer, p.out)
	go p.pump(outer, inner, p.in)
	return &dialedConn{Conn: end, real: outer}, nil
}

// dialedConn has the addresses of the real connection.
type dialedConn struct {
	net.Conn
	real net.Conn
}

func (c *dialedConn) LocalAddr() net.Addr  { return c.real.LocalAddr() }
func (c *dialedConn) RemoteAddr() net.Addr { return c.real.RemoteAddr() }

// close resets the connection. It may be called with the network's mu held.
func (p *pipe) close() {
	p.once.Do(func() {
		close(p.stop)
		_ = p.inner.Close()
		_ = p.outer.Close()
	})
}

type chunk struct {
	data []byte
	sent time.Time
}

// window is how many chunks are under way in a direction before the sender waits.
const window = 256

// pump moves what arrives at src to dst as the link permits, and then closes the connection: the end of a
// connection travels like its bytes.
func (p *pipe) pump(src, dst net.Conn, l link) {
	queue := make(chan chunk, window)
	go func() {
		defer close(queue)
		for {
			buf := make([]byte, 16<<10)
			n, err := src.Read(buf)
			if n > 0 {
				select {
				case queue <- chunk{buf[:n], time.Now()}:
				case <-p.stop:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range queue {
		if p.deliver(c.sent, l) != nil {
			break
		}
		if _, err := dst.Write(c.data); err != nil {
			break
		}
	}
	_ = p.deliver(time.Now(), l)
	p.close()
	p.net.mu.Lock()
	delete(p.net.pipes, p)
	p.net.mu.Unlock()
}

// deliver waits until what was sent at a time arrives.
func (p *pipe) deliver(sent time.Time, l link) error {
	p.net.mu.Lock()
	delay := p.net.slow[l]
	p.net.mu.Unlock()
	if wait := time.Until(sent.Add(delay)); delay > 0 && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.stop:
			return errWaited
		}
	}
	return p.net.wait(l, p.stop)
}

// echo starts a host that sends back what it gets.
func echo(t *testing.T, n *network, addr string) *host {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	h := n.host(addr)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c = h.wrap(c)
			go func() {
				defer c.Close()
				buf := make([]byte, 100)
				for {
					k, err := c.Read(buf)
					if err != nil {
						return
					}
					_, _ = c.Write(buf[:k])
				}
			}()
		}
	}()
	h.up(ln.Addr().String())
	return h
}

func TestACutLinkDelaysOneDirectionOnly(t *testing.T) {
	n := newNetwork()
	a, b := n.host("a"), echo(t, n, "b")
	c, err := a.dial(t.Context(), "b")
	require.NoError(t, err)
	defer c.Close()
	buf := make([]byte, 1)
	read := func(wait time.Duration) error {
		if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		_, err := c.Read(buf)
		return err
	}
	for _, l := range []link{{"a", "b"}, {"b", "a"}} {
		n.cutLinks(l)
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		require.Error(t, read(30*time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err = a.dial(ctx, "b")
		cancel()
		require.ErrorIs(t, err, errWaited)
		n.heal(false)
		require.NoError(t, read(patience))
	}

	n.slowLinks(50*time.Millisecond, link{"b", "a"})
	begin := time.Now()
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, read(patience))
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)

	n.cutLinks(link{"a", "b"})
	n.heal(true)
	require.Error(t, read(patience), "the connection was reset")

	b.down()
	_, err = a.dial(t.Context(), "b")
	require.ErrorContains(t, err, "refused")
}

func TestADeadHostIsSilent(t *testing.T) {
	n := newNetwork()
	a := n.host("a")
	echo(t, n, "b")
	c, err := a.dial(t.Context(), "b")
	require.NoError(t, err)
	a.down()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = a.dial(t.Context(), "b")
	require.ErrorIs(t, err, errDead)
}
