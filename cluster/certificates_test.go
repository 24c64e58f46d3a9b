package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// certifier is a CA that gives each node a certificate of its own.
type certifier struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
	pool *x509.CertPool
}

func newCertifier(t *testing.T) *certifier {
	c := &certifier{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the CA"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	c.cert, c.key = c.sign(template, template, nil)
	c.file = c.write("ca.pem", "CERTIFICATE", c.cert.Raw)
	c.pool.AddCert(c.cert)
	return c
}

func (c *certifier) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(c.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(c.t, err)
	return cert, key
}

func (c *certifier) write(name, kind string, der []byte) string {
	name = filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return name
}

// node returns the files of a new certificate for 127.0.0.1. change may be nil.
func (c *certifier) node(name string, change func(*x509.Certificate)) SecurityOptions {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(template)
	}
	cert, key := c.sign(template, c.cert, c.key)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(c.t, err)
	return SecurityOptions{
		CertFile: c.write(name+".pem", "CERTIFICATE", cert.Raw), KeyFile: c.write(name+".key", "EC PRIVATE KEY", der), CAFile: c.file,
	}
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
	client := redis.NewClient(&redis.Options{Addr: nodes[0].Addr(), TLSConfig: &tls.Config{RootCAs: ca.pool}})
	defer func() { require.NoError(t, client.Close()) }()
	waitForVoters(t, ctx, client, 3)
	return nodes
}

func TestNodesUseCertificatesOfTheirOwn(t *testing.T) {
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
	client := redis.NewClient(&redis.Options{Addr: wrong.Addr(), TLSConfig: &tls.Config{RootCAs: ca.pool}, MaxRetries: -1})
	defer func() { require.NoError(t, client.Close()) }()
	require.ErrorContains(t, client.Ping(ctx).Err(), "127.9.9.9")
}
