package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// parallel lets a test run beside others, because it waits for elections most of the time.
//
//race:clock
func parallel(t *testing.T) { t.Parallel() }

func fast(id string) Options {
	return Options{
		ID: id, Dir: "node", FS: vfs.NewMem(), Network: NetworkOptions{Listen: "127.0.0.1:0"},
		Timing: TimingOptions{Heartbeat: 200 * time.Millisecond, Gossip: 40 * time.Millisecond},
		Disk:   DiskOptions{Reserve: 1}, // of the file system of this directory's name, which is not used
	}
}

// create makes the directory of a node that joins no other, unless there is one.
func create(t testing.TB, o Options) {
	if _, err := o.FS.Lstat(o.Dir + "/node.json"); err != nil && len(o.Network.Join) == 0 {
		require.NoError(t, Create(o))
	}
}

// start starts a node that is closed at the end of the test.
func start(t *testing.T, o Options) *Node {
	create(t, o)
	n, err := Start(within(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	require.NoError(t, n.Ready(within(t)))
	return n
}

// waitForVoters waits until each group has a number of replicas.
func waitForVoters(t testing.TB, ctx context.Context, c *redis.Client, want int) {
	require.Eventually(t, func() bool {
		rows, err := c.Do(ctx, "RAFT.GROUPS").Slice()
		require.NoError(t, err)
		for _, row := range rows {
			if _, voters, _ := strings.Cut(row.(string), "voters="); voters == "" || len(strings.Split(voters, ",")) != want {
				return false
			}
		}
		return true
	}, 2*time.Minute, 10*time.Millisecond)
}

func TestOptionsOutOfTheirBoundsAreNamed(t *testing.T) {
	for field, change := range map[string]func(o *Options){
		"ID":                     func(o *Options) { o.ID = "a.b" },
		"Dir":                    func(o *Options) { o.Dir = "" },
		"Shape.Groups":           func(o *Options) { o.Shape.Groups = 3 },
		"Shape.Replicas":         func(o *Options) { o.Shape.Replicas = 10 },
		"Memory.Memtables":       func(o *Options) { o.Memory.Memtables = 1 },
		"Timing.Heartbeat":       func(o *Options) { o.Timing.Heartbeat = time.Millisecond },
		"Limits.MaxClients":      func(o *Options) { o.Limits.MaxClients = -1 },
		"Security.Secret":        func(o *Options) { o.Security.Secret = "short" },
		"Security.Password":      func(o *Options) { o.Security.Password = "open sesame" },
		"Security needs all":     func(o *Options) { o.Security.CertFile = "c.pem" },
		"Limits.SnapshotEntries": func(o *Options) { o.Limits.SnapshotEntries = 1 },
	} {
		o := fast("1")
		require.NoError(t, o.Validate())
		change(&o)
		require.ErrorContains(t, o.Validate(), "cluster: Options."+field)
		_, err := Start(within(t), o)
		require.Error(t, err)
	}
}

func TestWithoutASecretOnlyLoopbackIsListenedOn(t *testing.T) {
	o := fast("1")
	o.Network.Listen = "0.0.0.0:0"
	create(t, o)
	_, err := Start(within(t), o)
	require.ErrorContains(t, err, "loopback")
}

func TestANodeSaysWhoMayActAsANode(t *testing.T) {
	parallel(t)
	security := newCertifier(t).node("1", nil)
	for want, change := range map[string]func(*Options){
		"each user of this machine may act as a node": func(*Options) {},
		"anyone who reaches this address may act as":  func(o *Options) { o.Security.Insecure = true },
		"clients talk to this node in plain text":     func(o *Options) { o.Security.Secret = "0123456789abcdef" },
		"": func(o *Options) { o.Security = security },
	} {
		var log bytes.Buffer
		o := fast("1")
		o.Shape.Groups, o.Logger = 1, slog.New(slog.NewTextHandler(&log, nil))
		change(&o)
		create(t, o)
		n, err := Start(within(t), o)
		require.NoError(t, err)
		require.NoError(t, n.Close())
		require.Contains(t, log.String(), want)
		if want == "" {
			require.NotContains(t, log.String(), "without TLS")
			require.NotContains(t, log.String(), "plain text")
		}
	}
}

func TestFiguresAreServed(t *testing.T) {
	parallel(t)
	o := fast("1")
	o.Shape.Groups = 1
	n := start(t, o)
	s := httptest.NewServer(n.Handler())
	defer s.Close()
	get := func(path string) string {
		r, err := http.Get(s.URL + path)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Body.Close()) }()
		require.Equal(t, http.StatusOK, r.StatusCode)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "ok: 1 groups, leads 1\n", get("/healthz"))
	get("/readyz")
	text := get("/metrics")
	require.Contains(t, text, "\nsieved_groups_led 1\n")
	heads := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# TYPE ") {
			require.False(t, heads[line], "a family has two heads: %s", line)
			heads[line] = true
		}
	}
	require.Greater(t, len(heads), 30)
	require.Contains(t, text, `group="log"`)
}

// A web site could make its own name mean this machine; its pages must not read the figures.
func TestFiguresAreServedUnderKnownHostsOnly(t *testing.T) {
	parallel(t)
	o := fast("1")
	o.Shape.Groups = 1
	h := start(t, o).Handler("db.example.com")
	for host, want := range map[string]int{
		"127.0.0.1:9121": 200, "localhost": 200, "[::1]:9121": 200, "DB.example.com:80": 200,
		"example.com": 403, "127.0.0.1.example.com": 403, "": 200, "x.db.example.com": 403,
	} {
		for _, path := range []string{"/healthz", "/metrics"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, want, w.Code, "host %q", host)
		}
	}
}

func TestNodesAndClientsUseTLSAndThePassword(t *testing.T) {
	parallel(t)
	ctx := within(t)
	ca := newCertifier(t)
	security := ca.node("1", nil)
	security.Secret, security.Password = "0123456789abcdef", "open sesame"
	o := fast("1")
	o.Security, o.Shape.Groups = security, 1
	first := start(t, o)
	o = fast("2")
	o.Security, o.Network.Join = security, []string{first.Addr()}
	second := start(t, o)

	stranger := redis.NewClient(&redis.Options{Addr: first.Addr(), TLSConfig: &tls.Config{RootCAs: ca.Pool}})
	defer func() { require.NoError(t, stranger.Close()) }()
	require.ErrorContains(t, stranger.Get(ctx, "a").Err(), "NOAUTH")
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{second.Addr()}, Password: security.Password, TLSConfig: &tls.Config{RootCAs: ca.Pool},
	})
	defer func() { require.NoError(t, client.Close()) }()
	// On a busy machine the group can be without a leader for a moment.
	require.Eventually(t, func() bool { return client.Set(ctx, "a", "b", 0).Err() == nil }, 2*time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return client.Get(ctx, "a").Val() == "b" }, 2*time.Minute, 10*time.Millisecond)

	o = fast("3")
	o.Security, o.Network.Join = security, []string{first.Addr()}
	o.Security.Secret = "another secret of the wrong kind"
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := Start(short, o)
	require.Error(t, err, "a node with another secret joined")
}

// endingFS ends the goroutine that opens a file.
type endingFS struct {
	*vfs.Mem
	end func()
}

func (f endingFS) Open(string) (vfs.File, error) { f.end(); return nil, nil }

// What ends the goroutine of a start, such as a panic of the user's code, is its error.
func TestAStartThatEndsItsGoroutineFails(t *testing.T) {
	parallel(t)
	for _, end := range []func(){runtime.Goexit, func() { panic("of the user") }} {
		o := fast("n1")
		create(t, o)
		o.FS = endingFS{o.FS.(*vfs.Mem), end}
		n, err := Start(within(t), o)
		require.Nil(t, n)
		require.ErrorContains(t, err, "during the start of a node")
		require.ErrorContains(t, err, "(at github.com/sievedb/sievedb/cluster.")
	}
}

// No goroutine of a node, those of the consensus library included, is profiled as a part of the request that started
// it.
func TestANodeHasNoLabelsOfItsStarter(t *testing.T) {
	pprof.Do(t.Context(), pprof.Labels("starter", "labelled"), func(context.Context) { start(t, fast("n1")) })
	var text strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	require.Contains(t, text.String(), "raft")
	require.NotContains(t, text.String(), "labelled")
}
