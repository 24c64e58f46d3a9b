package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

func dialRaw(t *testing.T, l *Listener, send []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = conn.Write(send)
	require.NoError(t, err)
	return conn
}

// requireClosed fails unless the other side closes the connection soon.
func requireClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if err != nil {
		require.ErrorAs(t, err, &timeout)
		require.False(t, timeout.Timeout(), "the connection is still open")
	}
}

func TestAHandshakeHasADeadline(t *testing.T) {
	l := listen(t, withSecret, func(o *Options) { o.HandshakeTimeout = 50 * time.Millisecond })
	h := hello{kind: kindControl, from: Peer{ID: "x"}}
	whole := h.append(nil)
	for _, n := range []int{len(magic), len(whole) - 1, len(whole)} {
		requireClosed(t, dialRaw(t, l, whole[:n]))
	}
	for _, n := range []int{1, len(magic) - 1} {
		requireFarewell(t, dialRaw(t, l, whole[:n]))
	}
}

// requireFarewell reads the error that a client gets if it begins as a node does.
func requireFarewell(t *testing.T, conn net.Conn) {
	t.Helper()
	text, err := io.ReadAll(conn)
	require.NoError(t, err, "the connection is not reset")
	require.Contains(t, string(text), "-ERR Protocol error: the first byte is 0x00")
}

func TestGarbageThatBeginsAsAPeerIsClosedAtOnce(t *testing.T) {
	l := listen(t, func(o *Options) { o.HandshakeTimeout = time.Hour })
	requireFarewell(t, dialRaw(t, l, []byte("\x00SIEVED\r")))
	requireFarewell(t, dialRaw(t, l, append([]byte{0}, bytes.Repeat([]byte{0xff}, 100_000)...)))
	later := (&hello{kind: kindControl, from: Peer{ID: "x"}}).append(nil)
	later[len(magic)]++
	conn := dialRaw(t, l, later)
	status := make([]byte, 1)
	_, err := io.ReadFull(conn, status)
	require.NoError(t, err)
	require.EqualValues(t, statusVersion, status[0])
	requireClosed(t, conn)
}

func TestASilentClientIsAClient(t *testing.T) {
	ca := newAuthority(t)
	for name, change := range map[string]func(*Options){"plain": func(*Options) {}, "TLS": ca.options(t)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network nettest.Memory
				l := listen(t, change, func(o *Options) { o.Bind, o.HandshakeTimeout = network.Listen, 5*time.Second })
				conn, err := network.Dial(t.Context(), l.Addr().String())
				require.NoError(t, err)
				defer conn.Close()
				if l.o.TLS != nil {
					conn = ca.client(t, conn)
				}
				accepted, err := l.Clients().Accept()
				require.NoError(t, err)
				defer accepted.Close()
				requireEcho(t, conn, accepted, "late")
			})
		})
	}
}

// Of 600 connections that a pool opened at once, 88 were closed: more than 512 were in the handshake.
func TestSilentClientsThatConnectAtOnceAllGetIn(t *testing.T) {
	l := listen(t, func(o *Options) { o.HandshakeTimeout, o.MaxHandshakes = time.Hour, 8 })
	var held []net.Conn
	for range 40 {
		held = append(held, dialRaw(t, l, nil))
	}
	for range 40 - 8 {
		accepted, err := l.Clients().Accept()
		require.NoError(t, err)
		go func() { _, _ = io.Copy(accepted, accepted) }()
		defer accepted.Close()
	}
	for _, conn := range held[:32] {
		_, err := conn.Write([]byte("late"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 4))
		require.NoError(t, err)
	}
}

func TestConnectionsInTheHandshakeAreBounded(t *testing.T) {
	l := listen(t, func(o *Options) { o.HandshakeTimeout, o.MaxHandshakes = time.Hour, 8 })
	l.Handle("ok", func(context.Context, json.RawMessage) (any, error) { return true, nil })
	var held []net.Conn
	for range 40 {
		held = append(held, dialRaw(t, l, []byte(magic)))
	}
	for _, conn := range held[:32] {
		requireClosed(t, conn)
	}
	l.mu.Lock()
	require.LessOrEqual(t, l.pending.Len(), 8)
	l.mu.Unlock()
	require.NoError(t, listen(t).Call(t.Context(), of(l), "ok", nil, nil), "peers still get in")
}

func TestALengthAloneGetsNoMemory(t *testing.T) {
	var frame []byte
	frame = binary.BigEndian.AppendUint32(frame, 1+MaxMessage)
	frame = append(frame, frameCall)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _, err := readFrame(bufio.NewReader(bytes.NewReader(frame)))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(MaxMessage))

	binary.BigEndian.PutUint32(frame, 2+MaxMessage)
	_, _, err := readFrame(bufio.NewReader(bytes.NewReader(frame)))
	require.ErrorContains(t, err, "are expected")
}

func TestAPeerThatStallsWithinAMessageIsDropped(t *testing.T) {
	l := listen(t, func(o *Options) { o.StallTimeout = 50 * time.Millisecond })
	conn := dialRaw(t, l, (&hello{kind: kindControl, from: Peer{ID: "x"}}).append(nil))
	_, err := io.ReadFull(conn, make([]byte, len(l.self.append([]byte{statusAccepted}))))
	require.NoError(t, err)
	_, err = conn.Write([]byte{0, 0, 1, 0, frameCall, '{'})
	require.NoError(t, err)
	requireClosed(t, conn)
}

func TestAConnectionCanBeCutOneWay(t *testing.T) {
	a := listen(t, func(o *Options) {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			<-ctx.Done() // a black hole
			return nil, ctx.Err()
		}
	})
	b := listen(t)
	ok := func(context.Context, json.RawMessage) (any, error) { return true, nil }
	a.Handle("ok", ok)
	b.Handle("ok", ok)
	require.NoError(t, b.Call(t.Context(), of(a), "ok", nil, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Call(ctx, of(b), "ok", nil, nil), context.DeadlineExceeded)
	_, err := a.Group(1).Dial(ctx, string(b.o.ID), b.Addr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	a, b := listen(t, withSecret), listen(t, withSecret)
	a.Handle("wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	a.Group(1)
	called := make(chan error, 1)
	go func() { called <- b.Call(context.Background(), of(a), "wait", nil, nil) }()
	_, err := b.Group(1).Dial(t.Context(), string(a.o.ID), a.Addr().String())
	require.NoError(t, err)
	dialRaw(t, a, []byte("a client that is not accepted"))
	dialRaw(t, a, []byte(magic))
	require.NoError(t, a.Close())
	require.Error(t, <-called)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Call(t.Context(), of(a), "wait", nil, nil), net.ErrClosed)
	requireGoroutines(t, before)
}

// requireGoroutines waits until there are at most want goroutines. require.Eventually has some of its own.
func requireGoroutines(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), want, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
