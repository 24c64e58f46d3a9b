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
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
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
	h := hello{version: version, kind: kindControl}
	whole := h.append(nil)
	for _, n := range []int{1, len(magic) - 1, len(magic), helloSize - 1, helloSize} {
		requireClosed(t, dialRaw(t, l, whole[:n]))
	}
}

func TestGarbageThatBeginsAsAPeerIsClosedAtOnce(t *testing.T) {
	l := listen(t, func(o *Options) { o.HandshakeTimeout = time.Hour })
	requireClosed(t, dialRaw(t, l, []byte("\x00SIEVED\r")))
	requireClosed(t, dialRaw(t, l, append([]byte{0}, bytes.Repeat([]byte{0xff}, 100)...)))
	old := (&hello{version: version + 1, kind: kindControl}).append(nil)
	conn := dialRaw(t, l, old)
	status := make([]byte, 1)
	_, err := io.ReadFull(conn, status)
	require.NoError(t, err)
	require.EqualValues(t, statusVersion, status[0])
	requireClosed(t, conn)
}

func TestASilentClientIsAClient(t *testing.T) {
	ca := newAuthority(t)
	for name, options := range map[string]func(*Options){"plain": func(*Options) {}, "TLS": ca.options(t)} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, options, func(o *Options) { o.HandshakeTimeout = 200 * time.Millisecond })
			conn := dialRaw(t, l, nil)
			if l.o.TLS != nil {
				conn = ca.client(t, conn)
			}
			accepted, err := l.Clients().Accept()
			require.NoError(t, err)
			defer accepted.Close()
			requireEcho(t, conn, accepted, "late")
		})
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
	require.NoError(t, listen(t).Call(t.Context(), l.Addr().String(), "ok", nil, nil), "peers still get in")
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
	conn := dialRaw(t, l, (&hello{version: version, kind: kindControl}).append(nil))
	_, err := io.ReadFull(conn, make([]byte, challengeSize))
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
	require.NoError(t, b.Call(t.Context(), a.Addr().String(), "ok", nil, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Call(ctx, b.Addr().String(), "ok", nil, nil), context.DeadlineExceeded)
	_, err := a.Group(1).Dial(raft.ServerAddress(b.Addr().String()), 30*time.Millisecond)
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
	go func() { called <- b.Call(context.Background(), a.Addr().String(), "wait", nil, nil) }()
	_, err := b.Group(1).Dial(raft.ServerAddress(a.Addr().String()), time.Minute)
	require.NoError(t, err)
	dialRaw(t, a, []byte("a client that is not accepted"))
	dialRaw(t, a, []byte(magic))
	require.NoError(t, a.Close())
	require.Error(t, <-called)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Call(t.Context(), a.Addr().String(), "wait", nil, nil), net.ErrClosed)
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

// script is a connection on which a peer has sent all of its bytes already.
type script struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.out.Write(p) }

func FuzzAdmit(f *testing.F) {
	whole := (&hello{version: version, kind: kindRaft, group: 7}).append(nil)
	f.Add(whole, false)
	f.Add(append(whole, make([]byte, proofSize)...), true)
	f.Add([]byte(magic), true)
	f.Fuzz(func(t *testing.T, in []byte, secret bool) {
		var key []byte
		if secret {
			key = testSecret
		}
		c := &script{in: bytes.NewReader(in)}
		h, err := admit(c, nil, key, func(hello) byte { return statusAccepted })
		if secret {
			require.Error(t, err, "the proof cannot be guessed")
			return
		}
		if err == nil {
			require.Equal(t, in[:helloSize], h.append(nil), "what is accepted is encoded to the same bytes")
		}
	})
}

func FuzzGreet(f *testing.F) {
	f.Add(make([]byte, challengeSize), false)
	f.Add(append([]byte{statusProve}, make([]byte, nonceSize+verdictSize)...), true)
	f.Add([]byte("-ERR unknown command\r\n"), true)
	f.Fuzz(func(t *testing.T, in []byte, secret bool) {
		var key []byte
		if secret {
			key = testSecret
		}
		err := greet(&script{in: bytes.NewReader(in)}, hello{version: version, kind: kindControl}, key)
		if secret {
			require.Error(t, err, "the proof cannot be guessed")
		} else {
			require.Equal(t, len(in) < challengeSize || in[0] != statusAccepted, err != nil)
		}
	})
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	writeFrame(&b, frameResult, []byte(`{"a":1}`))
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 0, 'R'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'R'})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			kind, payload, err := readFrame(r)
			if err != nil {
				return
			}
			var again bytes.Buffer
			require.NoError(t, writeFrame(&again, kind, payload))
			require.Equal(t, in[:again.Len()], again.Bytes(), "what is accepted is encoded to the same bytes")
			in = in[again.Len():]
		}
	})
}
