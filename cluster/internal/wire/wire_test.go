package wire

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

var testSecret = []byte("a secret of the tests")

// listeners counts the nodes of the tests, for their IDs.
var listeners atomic.Int64

// of is where calls to a node go.
func of(l *Listener) Target { return Target{Peer{ID: l.o.ID}, l.Addr().String()} }

func listen(t *testing.T, change ...func(*Options)) *Listener {
	t.Helper()
	o := Options{
		ID: kv.NodeID(fmt.Sprint("n", listeners.Add(1))), Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		HandshakeTimeout: time.Minute,
	}
	for _, f := range change {
		f(&o)
	}
	l, err := Listen(o)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func withSecret(o *Options) { o.Secret = testSecret }

// authority is a CA of the tests.
type authority struct{ *nettest.CA }

func newAuthority(t *testing.T) authority { return authority{nettest.NewCA(t)} }

func (a authority) node(t *testing.T) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(a.Node(t, "node", nil))
	require.NoError(t, err)
	return cert
}

func (a authority) options(t *testing.T) func(*Options) {
	cert := a.node(t)
	return func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.Pool}
		o.PeerTLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: a.Pool}
	}
}

func TestOneAddressServesClientsGroupsAndCalls(t *testing.T) {
	ca := newAuthority(t)
	for name, options := range map[string][]func(*Options){
		"plain":          nil,
		"secret":         {withSecret},
		"TLS":            {ca.options(t)},
		"TLS and secret": {ca.options(t), withSecret},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t, options...), listen(t, options...)
			addr := a.Addr().String()
			a.Handle("double", func(_ context.Context, r json.RawMessage) (any, error) {
				var n int
				err := json.Unmarshal(r, &n)
				return 2 * n, err
			})

			var n int
			require.NoError(t, b.Call(t.Context(), of(a), "double", 21, &n))
			require.Equal(t, 42, n)

			three, seven := a.Group(3), a.Group(7)
			for id, s := range map[kv.GroupID]*Stream{3: three, 7: seven} {
				out, err := b.Group(id).Dial(t.Context(), string(a.o.ID), addr)
				require.NoError(t, err)
				in, err := s.Accept()
				require.NoError(t, err)
				requireEcho(t, out, in, fmt.Sprintf("group %d", id))
			}

			client, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			if b.o.PeerTLS != nil { // without a certificate of its own
				client = tls.Client(client, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"})
			}
			defer client.Close()
			go client.Write([]byte("*1\r\n$4\r\nPING\r\n"))
			accepted, err := a.Clients().Accept()
			require.NoError(t, err)
			defer accepted.Close()
			got := make([]byte, 14)
			_, err = io.ReadFull(accepted, got)
			require.NoError(t, err)
			require.Equal(t, "*1\r\n$4\r\nPING\r\n", string(got))
		})
	}
}

func requireEcho(t *testing.T, a, b net.Conn, text string) {
	t.Helper()
	for range 2 {
		_, err := a.Write([]byte(text))
		require.NoError(t, err)
		got := make([]byte, len(text))
		_, err = io.ReadFull(b, got)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		a, b = b, a
	}
}

func TestStrangersAreRefused(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	noCertificate := func(o *Options) {
		ca.options(t)(o)
		o.PeerTLS.Certificates = nil
	}
	foreignCertificate := func(o *Options) {
		ca.options(t)(o)
		o.PeerTLS.Certificates = []tls.Certificate{other.node(t)}
	}
	otherSecret := func(o *Options) { o.Secret = []byte("another secret here") }
	none := func(*Options) {}
	for name, c := range map[string]struct {
		listener, dialer func(*Options)
		refused          string // "": TLS itself fails
	}{
		"another secret":            {withSecret, otherSecret, "secrets of the two nodes differ"},
		"no secret":                 {withSecret, none, "this one has none"},
		"a listener without secret": {none, withSecret, "the other one has none"},
		"no certificate":            {ca.options(t), noCertificate, "requires a client certificate"},
		"a foreign certificate":     {ca.options(t), foreignCertificate, ""},
		"a foreign listener":        {other.options(t), ca.options(t), ""},
		"plain to TLS":              {ca.options(t), none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t, c.listener), listen(t, c.dialer)
			a.Handle("steal", func(context.Context, json.RawMessage) (any, error) {
				t.Error("the handler ran")
				return nil, nil
			})
			s := a.Group(1)
			go func() {
				if conn, err := s.Accept(); err == nil && c.refused != "the other one has none" {
					t.Error("the group accepted", conn.RemoteAddr())
				}
			}()
			err := b.Call(t.Context(), of(a), "steal", nil, nil)
			require.Error(t, err)
			_, err = b.Group(1).Dial(t.Context(), string(a.o.ID), a.Addr().String())
			require.Error(t, err)
			if c.refused != "" {
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, c.refused)
			}
		})
	}
}

func TestListenRefusesWhatIsNotSafe(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		change func(*Options)
		text   string
	}{
		"all interfaces":     {func(o *Options) { o.Address = ":0" }, "only loopback addresses are safe"},
		"a short secret":     {func(o *Options) { o.Secret = []byte("short") }, "at least 16"},
		"TLS of one side":    {func(o *Options) { ca.options(t)(o); o.PeerTLS = nil }, "connections to peers"},
		"TLS without its CA": {func(o *Options) { ca.options(t)(o); o.TLS.ClientCAs = nil }, "CA of the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{ID: "n", Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
			c.change(&o)
			_, err := Listen(o)
			require.ErrorContains(t, err, c.text)
		})
	}
	insecure := listen(t, func(o *Options) { o.Address, o.Insecure = ":0", true })
	require.NotNil(t, insecure.Addr())
}

func TestAGroupWithoutReplicaRefusesItsPeers(t *testing.T) {
	a, b := listen(t, withSecret), listen(t, withSecret)
	id, addr := string(a.o.ID), a.Addr().String()
	_, err := b.Group(1).Dial(t.Context(), id, addr)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "no replica of the group")

	s := a.Group(1)
	out, err := b.Group(1).Dial(t.Context(), id, addr)
	require.NoError(t, err)
	in, err := s.Accept()
	require.NoError(t, err)
	requireEcho(t, out, in, "hello")

	require.NoError(t, s.Close())
	_, err = out.Read(make([]byte, 1))
	require.Error(t, err, "closing the stream closes its connections")
	_, err = s.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = b.Group(1).Dial(t.Context(), id, addr)
	require.ErrorIs(t, err, ErrRefused)
	a.Group(1)
	_, err = b.Group(1).Dial(t.Context(), id, addr)
	require.NoError(t, err, "the group is back")
}

func TestClosingAGroupEndsItsDials(t *testing.T) {
	l := listen(t, func(o *Options) {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	s := l.Group(1)
	dialed := make(chan error, 1)
	go func() {
		_, err := s.Dial(context.Background(), "n", "127.0.0.1:1")
		dialed <- err
	}()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-dialed, context.Canceled)
}

func TestErrorsKeepTheirIdentityAcrossTheWire(t *testing.T) {
	own := errors.New("an error of another room")
	errs := func(o *Options) { o.Errors = map[string]error{"own": own} }
	a, b := listen(t, errs), listen(t, errs)
	var returned error
	a.Handle("fail", func(context.Context, json.RawMessage) (any, error) {
		return nil, fmt.Errorf("with context: %w", returned)
	})
	for _, want := range []error{
		kv.ErrUnknown, kv.ErrNoQuorum, kv.ErrStale, kv.ErrBusy, kv.ErrNoSpace, kv.ErrClosed, own,
		context.Canceled, context.DeadlineExceeded,
	} {
		returned = want
		err := b.Call(t.Context(), of(a), "fail", nil, nil)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "with context: "+want.Error())
	}
	returned = &kv.NotLeaderError{Group: 7, Leader: "10.0.0.1:7000"}
	var notLeader *kv.NotLeaderError
	require.ErrorAs(t, b.Call(t.Context(), of(a), "fail", nil, nil), &notLeader)
	require.Equal(t, returned, notLeader)

	returned = errors.New("any")
	var remote *RemoteError
	require.ErrorAs(t, b.Call(t.Context(), of(a), "fail", nil, nil), &remote)
	require.Equal(t, "failed", remote.Code)
	require.ErrorIs(t, b.Call(t.Context(), of(a), "missing", nil, nil), ErrUnknownMethod)
}

func TestCallsShareConnections(t *testing.T) {
	var accepted atomic.Int32
	a := listen(t, func(o *Options) {
		o.Accepted = func(c net.Conn) net.Conn { accepted.Add(1); return c }
	})
	b := listen(t)
	a.Handle("echo", func(_ context.Context, r json.RawMessage) (any, error) { return r, nil })
	a.Handle("fail", func(context.Context, json.RawMessage) (any, error) { return nil, kv.ErrBusy })
	for i := range 20 {
		var got int
		require.NoError(t, b.Call(t.Context(), of(a), "echo", i, &got))
		require.Equal(t, i, got)
		require.ErrorIs(t, b.Call(t.Context(), of(a), "fail", nil, nil), kv.ErrBusy)
	}
	require.EqualValues(t, 1, accepted.Load())
}

func TestACallAfterARestartOfTheOtherNodeGetsANewConnection(t *testing.T) {
	b := listen(t)
	a := listen(t)
	to := of(a)
	ok := func(context.Context, json.RawMessage) (any, error) { return true, nil }
	a.Handle("ok", ok)
	require.NoError(t, b.Call(t.Context(), to, "ok", nil, nil))
	a.Close()
	a = listen(t, func(o *Options) { o.ID, o.Address = to.ID, to.Addr })
	a.Handle("ok", ok)
	require.Eventually(t, func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return !b.pool.idle[to][0].fresh()
	}, time.Minute, time.Millisecond, "the pool notices that the connection has ended")
	require.NoError(t, b.Call(t.Context(), to, "ok", nil, nil))
}

func TestACallEndsWithItsContext(t *testing.T) {
	a, b := listen(t), listen(t)
	a.Handle("wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Call(ctx, of(a), "wait", nil, nil), context.DeadlineExceeded)

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	require.ErrorIs(t, b.Call(ctx, of(a), "wait", nil, nil), context.Canceled)
}

func TestMessagesThatAreTooLongAreErrors(t *testing.T) {
	a, b := listen(t), listen(t)
	a.limit, b.limit = chunkSize*2, chunkSize*3 // MaxMessage of JSON would be slow
	answer := func(n int) func(context.Context, json.RawMessage) (any, error) {
		return func(context.Context, json.RawMessage) (any, error) { return strings.Repeat("x", n), nil }
	}
	a.Handle("just right", answer(a.limit-2))
	a.Handle("too long", answer(a.limit-1))
	a.Handle("length", func(_ context.Context, r json.RawMessage) (any, error) { return len(r), nil })
	var text string
	require.NoError(t, b.Call(t.Context(), of(a), "just right", nil, &text))
	require.Equal(t, a.limit-2, len(text))
	require.ErrorContains(t, b.Call(t.Context(), of(a), "too long", nil, nil), "at most")
	require.ErrorContains(t, b.Call(t.Context(), of(a), "length", strings.Repeat("x", b.limit), nil), "at most")
	var n int
	require.NoError(t, b.Call(t.Context(), of(a), "length", strings.Repeat("x", b.limit-100), &n))
	require.Equal(t, b.limit-98, n)
	require.ErrorContains(t, writeFrame(io.Discard, frameResult, make([]byte, MaxMessage+1)), "at most")
}

func TestAStreamSaysWhetherItEndedWell(t *testing.T) {
	a, b := listen(t), listen(t)
	data := make([]byte, 3*chunkSize+5)
	rand.Read(data)
	var result error
	a.HandleStream("state", func(_ context.Context, r json.RawMessage, w io.Writer) error {
		var n int
		if err := json.Unmarshal(r, &n); err != nil {
			return err
		}
		_, err := w.Write(data[:n])
		return errors.Join(err, result)
	})
	read := func(n int) ([]byte, error) {
		s, err := b.CallStream(t.Context(), of(a), "state", n)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		return io.ReadAll(s)
	}
	for _, n := range []int{0, 1, len(data)} {
		got, err := read(n)
		require.NoError(t, err)
		require.Equal(t, n, len(got))
		require.Equal(t, data[:n], append([]byte{}, got...))
	}
	result = kv.ErrNoSpace
	for _, n := range []int{0, 1, len(data)} {
		got, err := read(n)
		require.ErrorIs(t, err, kv.ErrNoSpace)
		require.Equal(t, data[:n], append([]byte{}, got...))
	}
	_, err := b.CallStream(t.Context(), of(a), "missing", nil)
	require.ErrorIs(t, err, ErrUnknownMethod)
}

func TestAStreamThatIsCutIsAnError(t *testing.T) {
	a, b := listen(t), listen(t)
	a.HandleStream("endless", func(_ context.Context, _ json.RawMessage, w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return err
			}
		}
	})
	s, err := b.CallStream(t.Context(), of(a), "endless", nil)
	require.NoError(t, err)
	defer s.Close()
	time.AfterFunc(20*time.Millisecond, func() { a.Close() })
	_, err = io.Copy(io.Discard, s)
	require.Error(t, err)

	c := listen(t)
	c.HandleStream("endless", func(ctx context.Context, _ json.RawMessage, w io.Writer) error {
		w.Write([]byte("x"))
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	s, err = b.CallStream(ctx, of(c), "endless", nil)
	require.NoError(t, err)
	defer s.Close()
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = io.Copy(io.Discard, s)
	require.ErrorIs(t, err, context.Canceled)
}

// client does the TLS handshake of a client without a certificate.
func (a *authority) client(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	c := tls.Client(conn, &tls.Config{RootCAs: a.Pool, ServerName: "127.0.0.1"})
	require.NoError(t, c.Handshake())
	return c
}
