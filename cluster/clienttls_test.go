package cluster

import (
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

// startTLS starts a node with TLS and the password "open sesame".
func startTLS(t *testing.T, ca *certifier) *Node {
	o := fast("1")
	o.Shape.Groups = 1
	o.Security = ca.node("node", nil)
	o.Security.Password = "open sesame"
	return start(t, o)
}

func TestGoRedisVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	ctx, ours, others := within(t), newCertifier(t), newCertifier(t)
	n := startTLS(t, ours)
	certificate := func(ca *certifier) tls.Certificate {
		c, err := tls.X509KeyPair(ca.Node(t, "client", nil))
		require.NoError(t, err)
		return c
	}
	get := func(config *tls.Config) error {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{n.Addr()}, Password: "open sesame", TLSConfig: config, MaxRedirects: 1,
			DialerRetries: 1,
		})
		defer func() { require.NoError(t, client.Close()) }()
		return client.Set(ctx, "k", "v", 0).Err()
	}
	require.NoError(t, get(&tls.Config{RootCAs: ours.Pool}))
	require.NoError(t, get(&tls.Config{RootCAs: ours.Pool, Certificates: []tls.Certificate{certificate(ours)}}), "one of the cluster's")
	require.ErrorContains(t, get(&tls.Config{RootCAs: others.Pool}), "unknown authority")
	require.ErrorContains(t, get(&tls.Config{RootCAs: ours.Pool, ServerName: "example.com"}), "example.com")
	require.Error(t, get(&tls.Config{RootCAs: ours.Pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}))
	foreign := &tls.Config{RootCAs: ours.Pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c := certificate(others)
		return &c, nil
	}}
	require.Error(t, get(foreign), "a client may have no certificate, and not one of another CA")
	require.Error(t, get(nil), "a client without TLS")
	require.NoError(t, get(&tls.Config{RootCAs: ours.Pool}), "the node still serves others")
}

func TestRedisCLIVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	path, ok := nettest.Need(t, "redis-cli", "redis-tools")
	if !ok {
		return
	}
	ours, others := newCertifier(t), newCertifier(t)
	n := startTLS(t, ours)
	cli := func(args ...string) string {
		cmd := nettest.RedisCLI(t, path, n.Addr(), args...)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH=open sesame")
		return nettest.Output(t, cmd)
	}
	if strings.Contains(cli("--tls", "--cacert", ours.file, "PING"), "Unrecognized option") {
		nettest.Missing(t, "redis-cli was built without TLS")
		return
	}
	require.Equal(t, "OK\n", cli("--tls", "--cacert", ours.file, "SET", "k", "v"))
	require.Equal(t, "v\n", cli("--tls", "--cacert", ours.file, "-c", "GET", "k"))
	require.Contains(t, cli("--tls", "--cacert", others.file, "GET", "k"), "certificate verify failed")
	require.Contains(t, cli("GET", "k"), "speaks TLS only", "the end is clear")
}

// redis-py is a third client, whose TLS is that of OpenSSL as well.
func TestRedisPyVerifiesANodeByItsCA(t *testing.T) {
	parallel(t)
	python, ok := nettest.Python(t, "redis")
	if !ok {
		return
	}
	ours, others := newCertifier(t), newCertifier(t)
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
	require.Equal(t, "b'v'\n", run(ours.file))
	require.Contains(t, run(others.file), "CERTIFICATE_VERIFY_FAILED")
}
