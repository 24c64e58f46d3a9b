package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/nettest"
)

// certifier is a CA that gives each node a certificate of its own.
type certifier struct {
	*nettest.CA
	t         *testing.T
	dir, file string
}

func newCertifier(t *testing.T) *certifier {
	c := &certifier{CA: nettest.NewCA(t), t: t, dir: t.TempDir()}
	c.file = c.write("ca.pem", c.PEM)
	return c
}

func (c *certifier) write(name string, text []byte) string {
	name = filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(name, text, 0o600))
	return name
}

// node returns the files of a new certificate for 127.0.0.1. change may be nil.
func (c *certifier) node(name string, change func(*x509.Certificate)) SecurityOptions {
	cert, key := c.Node(c.t, name, change)
	return SecurityOptions{CertFile: c.write(name+".pem", cert), KeyFile: c.write(name+".key", key), CAFile: c.file}
}

// startWithTLS starts three nodes, each with a certificate of its own.
func startWithTLS(t *testing.T, ctx context.Context, ca *certifier) (nodes []*Node) {
	for id := range 3 {
		o := fast(fmt.Sprint(id + 1))
		o.Shape.Groups, o.Security = 1, ca.node(o.ID, nil)
		if id > 0 {
			o.Network.Join = []string{nodes[0].Addr()}
		}
		nodes = append(nodes, start(t, o))
	}
	client := redis.NewClient(&redis.Options{Addr: nodes[0].Addr(), TLSConfig: &tls.Config{RootCAs: ca.Pool}})
	defer func() { require.NoError(t, client.Close()) }()
	waitForVoters(t, ctx, client, 3)
	return nodes
}

func TestNodesUseCertificatesOfTheirOwn(t *testing.T) {
	parallel(t)
	ctx, ca, other := within(t), newCertifier(t), newCertifier(t)
	nodes := startWithTLS(t, ctx, ca)
	refused := func(why string, s SecurityOptions) {
		o := fast("9")
		o.Security, o.Network.Join = s, []string{nodes[0].Addr()}
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := Start(ctx, o)
		require.ErrorContains(t, err, "no node of", why)
	}
	foreign := other.node("9", nil)
	foreign.CAFile = ca.file // it trusts this cluster, which does not trust it
	refused("a certificate of another CA", foreign)
	refused("a cluster with another CA", other.node("9", nil))
	refused("a certificate that is for servers only", ca.node("9", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }))
	refused("a certificate that has ended", ca.node("9", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	refused("no TLS", SecurityOptions{})

	// The host of a certificate is checked by who dials: the others do not take this node for one at 127.0.0.1.
	o := fast("8")
	o.Security, o.Network.Join = ca.node("8", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 9, 9, 9)} }), []string{nodes[0].Addr()}
	wrong, err := Start(ctx, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, wrong.Close()) }()
	client := redis.NewClient(&redis.Options{Addr: wrong.Addr(), TLSConfig: &tls.Config{RootCAs: ca.Pool}, MaxRetries: -1})
	defer func() { require.NoError(t, client.Close()) }()
	require.ErrorContains(t, client.Ping(ctx).Err(), "127.9.9.9")
}
