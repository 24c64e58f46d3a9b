package wire

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnectionsThatNobodyAcceptsAreBounded(t *testing.T) {
	l := listen(t)
	var held []net.Conn
	for range maxWaiting + 10 {
		held = append(held, dialRaw(t, l, []byte("*")))
	}
	closed := make(chan net.Conn)
	for _, conn := range held {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- conn
		}()
	}
	for range 10 {
		<-closed
	}
	for range maxWaiting {
		conn, err := l.Clients().Accept()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		<-closed
	}
}

// Of 300 clients that connected at once to a node with 320 places, half were closed: those behind them had come before
// anybody looked at what they had sent.
func TestClientsThatConnectAtOnceAllGetIn(t *testing.T) {
	const clients = 3 * maxWaiting
	all := make(chan struct{})
	l := listen(t, func(o *Options) {
		o.MaxHandshakes = 4
		o.Accepted = func(conn net.Conn) net.Conn { <-all; return conn }
	})
	var conns []net.Conn
	for range clients {
		conns = append(conns, dialRaw(t, l, []byte("*")))
	}
	close(all)
	for range clients {
		accepted, err := l.Clients().Accept()
		require.NoError(t, err)
		_, err = accepted.Write([]byte("+"))
		require.NoError(t, err)
		require.NoError(t, accepted.Close())
	}
	for _, conn := range conns {
		answer, err := io.ReadAll(conn)
		require.Equal(t, "+", string(answer), err)
	}
}

// scarce is a listener of a process that has no descriptor left for a while.
type scarce struct {
	net.Listener
	failures int
	conns    chan net.Conn
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.failures > 0 {
		s.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if conn, ok := <-s.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func TestAcceptSurvivesALackOfDescriptors(t *testing.T) {
	ln := &scarce{failures: 3, conns: make(chan net.Conn, 1)}
	l := &Listener{o: listen(t).o, ln: ln, clients: newQueue(nil)}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	l.wg.Add(1)
	go l.accept()
	ours, theirs := net.Pipe()
	ln.conns <- theirs
	_, err := ours.Write([]byte("*"))
	require.NoError(t, err)
	accepted, err := l.Clients().Accept()
	require.NoError(t, err)
	require.NoError(t, accepted.Close())
	l.cancel()
	close(ln.conns)
	l.wg.Wait()

	delay := time.Duration(0)
	for range 20 {
		before := delay
		delay = longer(delay)
		require.True(t, delay > before || delay == time.Second)
	}
}

func TestAPlainClientOfATLSListenerIsToldSo(t *testing.T) {
	l := listen(t, newAuthority(t).options(t))
	for _, more := range []int{0, 100_000} { // that were not read, so that closing reset the connection
		conn := dialRaw(t, l, append([]byte("*1\r\n$4\r\nPING\r\n"), make([]byte, more)...))
		text, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, "-ERR this node speaks TLS only: connect with TLS\r\n", string(text))
	}
	requireClosed(t, dialRaw(t, l, []byte(magic)))
}
