package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// SecurityOptions say who may connect to a node. The zero value allows connections from this machine only.
type SecurityOptions struct {
	// Password is what clients must give to AUTH. It needs Secret or TLS, because nodes share the port with
	// clients: anyone who can act as a node does not need it. Default: none is needed.
	Password string

	// Secret is shared by the nodes of a cluster, which prove to each other that they know it, and encrypt what they
	// say to each other if there is no TLS. It has at least 16 bytes, and must not be guessable. It does nothing for
	// clients: without TLS, what they send and get is in plain text.
	Secret string

	// CertFile and KeyFile have the certificate of this node and its key, CAFile the certificates of the cluster's own
	// CA, all as PEM. With them, all connections use TLS, and nodes must have a certificate of that CA. Clients need
	// none. The certificate must be for servers and for clients, and for the host of the address that others use.
	CertFile, KeyFile, CAFile string

	// Insecure allows addresses other than loopback without TLS and without a secret: anyone who reaches the
	// address can then read, change and delete everything. It is for private networks of tests.
	Insecure bool
}

// Enabled reports whether nodes authenticate each other, so that they may listen on all addresses.
func (s *SecurityOptions) Enabled() bool { return s.Secret != "" || s.CertFile != "" }

// explain logs who may act as a node, and what is in plain text.
func (s *SecurityOptions) explain(logger *slog.Logger, addr string) {
	switch {
	case s.Enabled() && s.CertFile == "":
		logger.Info("the secret protects what nodes say to each other; clients talk to this node in plain text", "addr", addr)
	case s.Enabled():
	case s.Insecure:
		logger.Warn("without TLS and without a secret, anyone who reaches this address may act as a node: read, change and "+
			"delete everything", "addr", addr)
	default:
		logger.Warn("without TLS and without a secret, each user of this machine may act as a node: read, change and delete "+
			"everything", "addr", addr)
	}
}

func (s *SecurityOptions) validate() error {
	if n := len(s.Secret); n > 0 && n < wire.MinSecret {
		return fmt.Errorf("cluster: Options.Security.Secret has %d bytes; at least %d are required", n, wire.MinSecret)
	}
	if s.Password != "" && !s.Enabled() && !s.Insecure {
		return errors.New("cluster: Options.Security.Password needs Secret or TLS: without them, anyone who can connect " +
			"can act as a node of the cluster, which needs no password")
	}
	if (s.CertFile == "") != (s.KeyFile == "") || (s.CertFile == "") != (s.CAFile == "") {
		return errors.New("cluster: Options.Security needs all of CertFile, KeyFile and CAFile, or none")
	}
	return nil
}

// load reads the certificates. The results are nil without TLS.
func (s *SecurityOptions) load() (listen, peers *tls.Config, err error) {
	if s.CertFile == "" {
		return nil, nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: Options.Security.CertFile: %w", err)
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: Options.Security.CAFile: %w", err)
	}
	ca := x509.NewCertPool()
	if !ca.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("cluster: Options.Security.CAFile: %s has no certificate", s.CAFile)
	}
	listen = &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: ca, ClientAuth: tls.VerifyClientCertIfGiven,
		MinVersion: tls.VersionTLS12,
	}
	peers = &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: ca, MinVersion: tls.VersionTLS12}
	return listen, peers, nil
}
