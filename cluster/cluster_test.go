package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

func fast(id string) Options {
	return Options{
		ID: id, Dir: "node", FS: vfs.NewMem(), Network: NetworkOptions{Listen: "127.0.0.1:0"},
		Timing: TimingOptions{Heartbeat: 200 * time.Millisecond, Gossip: 40 * time.Millisecond},
		Disk:   DiskOptions{Reserve: 1}, // of the file system of this directory's name, which is not used
	}
}

// start starts a node that is closed at the end of the test.
func start(t *testing.T, o Options) *Node {
	n, err := Start(within(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	require.NoError(t, n.Ready(within(t)))
	return n
}

func TestClientsOfRedisClusterWriteThroughTheFailureOfANode(t *testing.T) {
	ctx := within(t)
	first := start(t, fast("1"))
	var addrs []string
	nodes := []*Node{first}
	for _, id := range []string{"2", "3"} {
		o := fast(id)
		o.Network.Join = []string{first.Addr()}
		nodes = append(nodes, start(t, o))
	}
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer func() { require.NoError(t, client.Close()) }()
	waitForReplicas(t, ctx, nodes[0], 3)
	require.NoError(t, client.Set(ctx, "{a}1", "one", 0).Err())
	require.NoError(t, first.Close())
	for i := range 100 {
		key := fmt.Sprint("key-", i)
		require.Eventually(t, func() bool {
			err := client.Set(ctx, key, i, 0).Err()
			if err != nil {
				client.ReloadState(ctx)
			}
			return err == nil
		}, time.Minute, 10*time.Millisecond, key)
	}
	require.Equal(t, "one", client.Get(ctx, "{a}1").Val())
	require.Equal(t, "99", client.Get(ctx, "key-99").Val())
	require.NoError(t, client.MSet(ctx, "{b}1", 1, "{b}2", 2).Err())
	require.Equal(t, []any{"1", "2"}, client.MGet(ctx, "{b}1", "{b}2").Val())
}

// waitForReplicas waits until each group has a number of voters.
func waitForReplicas(t testing.TB, ctx context.Context, n *Node, want int) {
	c := redis.NewClient(&redis.Options{Addr: n.Addr()})
	defer func() { require.NoError(t, c.Close()) }()
	waitForVoters(t, ctx, c, want)
}

func waitForVoters(t testing.TB, ctx context.Context, c *redis.Client, want int) {
	require.Eventually(t, func() bool {
		rows, err := c.Do(ctx, "RAFT.GROUPS").Slice()
		require.NoError(t, err)
		for _, row := range rows {
			if replicas, _ := row.([]any)[4].([]any); len(replicas) != want {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
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
	_, err := Start(within(t), o)
	require.ErrorContains(t, err, "loopback")
}

func TestANodeSaysWhoMayActAsANode(t *testing.T) {
	security, _ := authority(t)
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
	require.Contains(t, text, "\nsieved_group_leads{group=\"0\"} 1\n")
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

// authority writes a certificate of a new CA for 127.0.0.1, its key, and the CA's own certificate.
func authority(t *testing.T) (s SecurityOptions, ca *x509.CertPool) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return name
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sieved"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	ca = x509.NewCertPool()
	ca.AddCert(cert)
	s.CertFile = write("cert.pem", "CERTIFICATE", der)
	s.CAFile = s.CertFile
	s.KeyFile = write("key.pem", "EC PRIVATE KEY", keyDER)
	return s, ca
}

func TestNodesAndClientsUseTLSAndThePassword(t *testing.T) {
	ctx := within(t)
	security, ca := authority(t)
	security.Secret, security.Password = "0123456789abcdef", "open sesame"
	o := fast("1")
	o.Security, o.Shape.Groups = security, 1
	first := start(t, o)
	o = fast("2")
	o.Security, o.Network.Join = security, []string{first.Addr()}
	second := start(t, o)

	stranger := redis.NewClient(&redis.Options{Addr: first.Addr(), TLSConfig: &tls.Config{RootCAs: ca}})
	defer func() { require.NoError(t, stranger.Close()) }()
	require.ErrorContains(t, stranger.Get(ctx, "a").Err(), "NOAUTH")
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{second.Addr()}, Password: security.Password, TLSConfig: &tls.Config{RootCAs: ca},
	})
	defer func() { require.NoError(t, client.Close()) }()
	// On a busy machine the group can be without a leader for a moment.
	require.Eventually(t, func() bool { return client.Set(ctx, "a", "b", 0).Err() == nil }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return client.Get(ctx, "a").Val() == "b" }, time.Minute, 10*time.Millisecond)

	o = fast("3")
	o.Security, o.Network.Join = security, []string{first.Addr()}
	o.Security.Secret = "another secret of the wrong kind"
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := Start(short, o)
	require.Error(t, err, "a node with another secret joined")
}
