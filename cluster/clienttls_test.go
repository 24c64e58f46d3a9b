package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

// certificates are those of a CA with one node.
type certificates struct {
	files SecurityOptions
	pool  *x509.CertPool
	node  tls.Certificate
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	ca := newCertifier(t)
	c := certificates{files: ca.node("node", nil), pool: ca.Pool}
	var err error
	c.node, err = tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	require.NoError(t, err)
	return c
}

// startTLS starts a node with TLS and the password "open sesame".
func startTLS(t *testing.T, c certificates) *Node {
	o := fast("1")
	o.Shape.Groups = 1
	o.Security = c.files
	o.Security.Password = "open sesame"
	return start(t, o)
}

func TestGoRedisVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	ctx, ours, others := within(t), newCertificates(t), newCertificates(t)
	n := startTLS(t, ours)
	get := func(config *tls.Config) error {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{n.Addr()}, Password: "open sesame", TLSConfig: config, MaxRedirects: 1,
			DialerRetries: 1,
		})
		defer func() { require.NoError(t, client.Close()) }()
		return client.Set(ctx, "k", "v", 0).Err()
	}
	require.NoError(t, get(&tls.Config{RootCAs: ours.pool}))
	require.NoError(t, get(&tls.Config{RootCAs: ours.pool, Certificates: []tls.Certificate{ours.node}}), "one of the cluster's")
	require.ErrorContains(t, get(&tls.Config{RootCAs: others.pool}), "unknown authority")
	require.ErrorContains(t, get(&tls.Config{RootCAs: ours.pool, ServerName: "example.com"}), "example.com")
	require.Error(t, get(&tls.Config{RootCAs: ours.pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}))
	foreign := &tls.Config{RootCAs: ours.pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &others.node, nil
	}}
	require.Error(t, get(foreign), "a client may have no certificate, and not one of another CA")
	require.Error(t, get(nil), "a client without TLS")
	require.NoError(t, get(&tls.Config{RootCAs: ours.pool}), "the node still serves others")
}

func TestRedisCLIVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	path, ok := nettest.Need(t, "redis-cli", "redis-tools")
	if !ok {
		return
	}
	ours, others := newCertificates(t), newCertificates(t)
	n := startTLS(t, ours)
	cli := func(args ...string) string {
		cmd := nettest.RedisCLI(t, path, n.Addr(), args...)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH=open sesame")
		return nettest.Output(t, cmd)
	}
	if strings.Contains(cli("--tls", "--cacert", ours.files.CAFile, "PING"), "Unrecognized option") {
		nettest.Missing(t, "redis-cli was built without TLS")
		return
	}
	require.Equal(t, "OK\n", cli("--tls", "--cacert", ours.files.CAFile, "SET", "k", "v"))
	require.Equal(t, "v\n", cli("--tls", "--cacert", ours.files.CAFile, "-c", "GET", "k"))
	require.Contains(t, cli("--tls", "--cacert", others.files.CAFile, "GET", "k"), "certificate verify failed")
	require.Contains(t, cli("GET", "k"), "speaks TLS only", "the end is clear")
}

// redis-py is a third client, whose TLS is that of OpenSSL as well.
func TestRedisPyVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	python, ok := nettest.Python(t, "redis")
	if !ok {
		return
	}
	ours, others := newCertificates(t), newCertificates(t)
	_, port, err := net.SplitHostPort(startTLS(t, ours).Addr())
	require.NoError(t, err)
	const script = `import redis, sys
c = redis.Redis("127.0.0.1", int(sys.argv[1]), password="open sesame", ssl=True, ssl_ca_certs=sys.argv[2])
c.set("k", "v")
print(c.get("k"))`
	run := func(ca string) string {
		out, _ := exec.CommandContext(within(t), python, "-c", script, port, ca).CombinedOutput() // its end is in the output
		return string(out)
	}
	require.Equal(t, "b'v'\n", run(ours.files.CAFile))
	require.Contains(t, run(others.files.CAFile), "CERTIFICATE_VERIFY_FAILED")
}
