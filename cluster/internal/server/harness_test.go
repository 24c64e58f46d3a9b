package server

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

// shortTimeout is for what a test lets time out. A busy machine must begin it earlier.
const shortTimeout = 500 * time.Millisecond

// loopback is the network of tests in bubbles.
var loopback nettest.Memory

// inMemory is a test whose servers and clients use loopback.
type inMemory struct{ testing.TB }

// bubble runs a test that waits for time in a bubble, where it passes at once when all wait for it.
func bubble(t *testing.T, test func(t testing.TB)) {
	synctest.Test(t, func(t *testing.T) { test(inMemory{t}) })
}

// start serves a node until the end of the test, and returns its address.
func start(t testing.TB, node *kvtest.Node, o Options) string {
	t.Helper()
	_, addr := startServer(t, node, o)
	return addr
}

func startServer(t testing.TB, node *kvtest.Node, o Options) (*Server, string) {
	t.Helper()
	return prepare(t, node, o, func(*Server) {})
}

// prepare is startServer for a server that is changed before it serves. The timeouts are what a busy machine needs,
// unless the test sets its own.
func prepare(t testing.TB, node *kvtest.Node, o Options, change func(*Server)) (*Server, string) {
	t.Helper()
	listen := net.Listen
	if _, ok := t.(inMemory); ok {
		listen = func(_, addr string) (net.Listener, error) { return loopback.Listen(addr) }
	}
	l, err := listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node.SetAddr(l.Addr().String())
	for _, timeout := range []*time.Duration{
		&o.WriteTimeout, &o.ReadTimeout, &o.ScanTimeout, &o.SendTimeout, &o.AuthTimeout, &o.RequestTimeout,
	} {
		*timeout = cmp.Or(*timeout, time.Minute)
	}
	s := New(node, o)
	change(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-done, ErrClosed)
	})
	return s, l.Addr().String()
}

// twoNodes serves two nodes that lead two groups: a leads the first, b the second.
func twoNodes(t *testing.T) (w *kvtest.World, addrA, addrB string) {
	w = kvtest.NewWorld(2, kv.NodeInfo{ID: "a", Up: true}, kv.NodeInfo{ID: "b", Up: true})
	return w, start(t, w.Node("a"), Options{}), start(t, w.Node("b"), Options{})
}

// peer is a client that sends and reads bytes.
type peer struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func dial(t testing.TB, network, addr string) *peer {
	t.Helper()
	connect := net.Dial
	if _, ok := t.(inMemory); ok {
		connect = func(_, addr string) (net.Conn, error) { return loopback.Dial(t.Context(), addr) }
	}
	nc, err := connect(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &peer{t: t, nc: nc, r: bufio.NewReader(nc)}
}

// encode returns a request. Words are divided by spaces.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func words(line string) []string { return strings.Split(line, " ") }

func (p *peer) send(raw string) {
	p.t.Helper()
	require.NoError(p.t, p.nc.SetDeadline(time.Now().Add(time.Minute)))
	_, err := io.WriteString(p.nc, raw)
	require.NoError(p.t, err)
}

// do sends a request, whose words are divided by spaces, and returns the reply in short form.
func (p *peer) do(line string) string {
	p.t.Helper()
	return p.args(words(line)...)
}

func (p *peer) args(args ...string) string {
	p.t.Helper()
	p.send(encode(args...))
	return p.reply()
}

// reply reads a reply and returns it in short form: its parts in brackets, without their lengths.
func (p *peer) reply() string {
	p.t.Helper()
	s, err := readReply(p.r)
	require.NoError(p.t, err)
	return s
}

// closed reports whether the server closes the connection without a further reply, unless that is the error of a
// connection that has no place.
func (p *peer) closed() bool {
	reply, err := readReply(p.r)
	if reply == "-"+tooManyClients {
		_, err = p.r.ReadByte()
	}
	return err != nil
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if line = strings.TrimSuffix(line, "\r\n"); line == "" {
		return "", errors.New("a reply is empty")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', '-', ':', ',', '#', '(':
		return line, nil
	case '_':
		return "nil", nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", fmt.Errorf("reply %q: %w", line, err)
	}
	if n < 0 {
		return "nil", nil
	}
	switch kind {
	case '$', '=':
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	case '%':
		n *= 2
	case '*', '~':
	default:
		return "", fmt.Errorf("unknown reply %q", line)
	}
	parts := make([]string, n)
	for i := range parts {
		if parts[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(parts, " ") + "]", nil
}

// realRedis is a redis-server that all tests of this package share, because a cluster needs two seconds to begin.
var realRedis struct {
	once   sync.Once
	socket string // "" if it is not installed
	cmd    *osexec.Cmd
	dir    string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if realRedis.cmd != nil {
		_ = realRedis.cmd.Process.Kill()
		_ = realRedis.cmd.Wait()
		os.RemoveAll(realRedis.dir)
	}
	os.Exit(code)
}

// startRedis returns the socket of a real redis-server without keys. It is a cluster of one node, which has all slots.
func startRedis(t testing.TB) (socket string, ok bool) {
	t.Helper()
	path, ok := nettest.Need(t, "redis-server", "redis-server")
	if !ok {
		return "", false
	}
	realRedis.once.Do(func() { runRedis(t, path) })
	require.Equal(t, "+OK", dial(t, "unix", realRedis.socket).do("FLUSHALL"))
	return realRedis.socket, true
}

func runRedis(t testing.TB, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	socket := filepath.Join(dir, "s")
	bus, err := net.Listen("tcp", "127.0.0.1:0") // a free port, which this Redis needs and nothing uses
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(bus.Addr().String())
	require.NoError(t, err)
	require.NoError(t, bus.Close())
	cmd := osexec.Command(path, "--port", "0", "--unixsocket", socket, "--bind", "127.0.0.1", "--cluster-enabled", "yes",
		"--cluster-port", port, "--save", "", "--appendonly", "no", "--dir", dir)
	require.NoError(t, cmd.Start())
	realRedis.socket, realRedis.cmd, realRedis.dir = socket, cmd, dir
	require.Eventually(t, func() bool {
		nc, err := net.Dial("unix", socket)
		if err == nil {
			nc.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	p := dial(t, "unix", socket)
	require.Equal(t, "+OK", p.do("CLUSTER ADDSLOTSRANGE 0 16383"))
	require.Eventually(t, func() bool {
		return strings.Contains(p.do("CLUSTER INFO"), "cluster_state:ok")
	}, time.Minute, 10*time.Millisecond)
}
