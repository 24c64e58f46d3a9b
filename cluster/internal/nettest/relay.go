package nettest

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relay is a stranger at an address that a node had. It passes what arrives on to a node, and does not know the secret.
type Relay struct {
	net.Listener
	to   string
	work sync.WaitGroup

	mu     sync.Mutex
	seen   [2]bytes.Buffer // from dialers, and from the node
	alter  func(fromDialer bool, b []byte)
	conns  []net.Conn
	closed bool
}

// NewRelay starts a relay at an address, and ends it with the test.
func NewRelay(t testing.TB, addr, to string) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	r := &Relay{Listener: ln, to: to, alter: func(bool, []byte) {}}
	r.work.Go(r.accept)
	t.Cleanup(func() {
		_ = r.Close()
		r.mu.Lock()
		r.closed = true
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

func (r *Relay) accept() {
	for {
		dialer, err := r.Accept()
		if err != nil {
			return
		}
		node, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = dialer.Close()
			continue
		}
		r.mu.Lock()
		if r.closed {
			_, _ = dialer.Close(), node.Close()
		}
		r.conns = append(r.conns, dialer, node)
		r.mu.Unlock()
		r.work.Go(func() { r.pass(node, dialer, 0) })
		r.work.Go(func() { r.pass(dialer, node, 1) })
	}
}

func (r *Relay) pass(to, from net.Conn, direction int) {
	defer func() { _ = to.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		r.seen[direction].Write(b[:n])
		r.alter(direction == 0, b[:n])
		r.mu.Unlock()
		if _, err2 := to.Write(b[:n]); err != nil || err2 != nil {
			return
		}
	}
}

// Alter makes f change what passes from now on.
func (r *Relay) Alter(f func(fromDialer bool, b []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alter = f
}

// Seen returns all that dialers have sent, and all that the node has sent.
func (r *Relay) Seen() (dialers, node []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.seen[0].Bytes()), bytes.Clone(r.seen[1].Bytes())
}

// Saw reports whether a text has passed.
func (r *Relay) Saw(text string) bool {
	dialers, node := r.Seen()
	return bytes.Contains(dialers, []byte(text)) || bytes.Contains(node, []byte(text))
}

// Send sends bytes on all connections, as if the other side had.
func (r *Relay) Send(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_, _ = c.Write(b)
	}
}
