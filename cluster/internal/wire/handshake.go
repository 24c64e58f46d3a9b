package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The bytes of the handshake. They cross the wire and never change within a version.
const (
	magic   = "\x00sieved\r"
	version = 1

	kindRaft    = 1
	kindControl = 2
	kindConfirm = 3

	clusterSize   = 16
	nonceSize     = 32
	proofSize     = sha256.Size
	helloSize     = len(magic) + 1 + 1 + 4 + clusterSize + nonceSize
	challengeSize = 1 + nonceSize
	verdictSize   = 1 + proofSize
)

// The statuses by which a listener answers.
const (
	statusAccepted    = 0
	statusProve       = 1
	statusVersion     = 2
	statusCertificate = 3
	statusSecret      = 4
	statusGroup       = 5
	statusKind        = 6
	statusCluster     = 7
)

// ErrRefused is what a handshake fails with if the peer's node does not accept this one, or this one does not
// trust the peer's node.
var ErrRefused = errors.New("the handshake between nodes was refused")

// ErrOtherCluster is the ErrRefused between nodes of different clusters.
var ErrOtherCluster = fmt.Errorf("%w: it belongs to another cluster, or to none yet", ErrRefused)

var errMagic = errors.New("the first bytes are not those of a peer")

func statusError(status byte) error {
	text := ""
	switch status {
	case statusCluster:
		return ErrOtherCluster
	case statusVersion:
		text = "it supports another version of the protocol: upgrade the older node"
	case statusCertificate:
		text = "it requires a client certificate of the cluster's CA"
	case statusSecret:
		text = "the secrets of the two nodes differ"
	case statusGroup:
		text = "it has no replica of the group"
	case statusKind:
		text = "it does not know this kind of connection"
	default:
		text = fmt.Sprintf("it answered with status %d, which is unknown: is it a sieved node?", status)
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// clusterSum stands for the ID of a cluster; zeros are no cluster.
type clusterSum [clusterSize]byte

func sumOf(cluster string) (c clusterSum) {
	if cluster != "" {
		sum := sha256.Sum256([]byte(cluster))
		copy(c[:], sum[:])
	}
	return c
}

// hello is the first message of a dialer.
type hello struct {
	version byte
	kind    byte
	group   kv.GroupID
	cluster clusterSum
	nonce   [nonceSize]byte
}

func (h *hello) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, h.version, h.kind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.group))
	dst = append(dst, h.cluster[:]...)
	return append(dst, h.nonce[:]...)
}

func parseHello(b []byte) (hello, error) {
	if len(b) != helloSize || string(b[:len(magic)]) != magic {
		return hello{}, errMagic
	}
	b = b[len(magic):]
	h := hello{version: b[0], kind: b[1], group: kv.GroupID(binary.BigEndian.Uint32(b[2:]))}
	copy(h.cluster[:], b[6:])
	copy(h.nonce[:], b[6+clusterSize:])
	return h, nil
}

const (
	roleDialer   = "sieved peer dialer"
	roleListener = "sieved peer listener"
)

func proof(secret []byte, role string, hello, nonce, binding []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(role), hello, nonce, binding} {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// tlsBinding returns bytes that only the two ends of this TLS connection know, or nil without TLS.
func tlsBinding(conn net.Conn) ([]byte, error) {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil, nil
	}
	state := t.ConnectionState()
	binding, err := state.ExportKeyingMaterial("EXPORTER-sieved-peer", nil, 32)
	if err != nil {
		return nil, fmt.Errorf("bind the handshake to TLS: %w", err)
	}
	return binding, nil
}

// greet does the dialer's part of the handshake, after it has chosen the nonce. The caller has set a deadline.
func greet(conn net.Conn, h hello, secret []byte) error {
	rand.Read(h.nonce[:])
	sent := h.append(nil)
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	var challenge [challengeSize]byte
	if _, err := io.ReadFull(conn, challenge[:1]); err != nil {
		return err
	}
	switch status := challenge[0]; {
	case status == statusAccepted && len(secret) > 0:
		return fmt.Errorf("%w: this node has a secret and the other one has none", ErrRefused)
	case status == statusProve && len(secret) == 0:
		return fmt.Errorf("%w: the other node has a secret and this one has none", ErrRefused)
	case status != statusAccepted && status != statusProve:
		return statusError(status)
	}
	if _, err := io.ReadFull(conn, challenge[1:]); err != nil {
		return err
	}
	if challenge[0] == statusAccepted {
		return nil
	}
	return prove(conn, secret, sent, challenge[1:])
}

func prove(conn net.Conn, secret, sent, nonce []byte) error {
	binding, err := tlsBinding(conn)
	if err != nil {
		return err
	}
	if _, err := conn.Write(proof(secret, roleDialer, sent, nonce, binding)); err != nil {
		return err
	}
	var verdict [verdictSize]byte
	if _, err := io.ReadFull(conn, verdict[:1]); err != nil {
		return err
	}
	if verdict[0] != statusAccepted {
		return statusError(verdict[0])
	}
	if _, err := io.ReadFull(conn, verdict[1:]); err != nil {
		return err
	}
	if !hmac.Equal(verdict[1:], proof(secret, roleListener, sent, nonce, binding)) {
		return statusError(statusSecret)
	}
	return nil
}

// admit does the listener's part of the handshake, after first, the bytes that were read already.
// known decides whether the group has a replica here; strangers do not learn that. The caller has set a
// deadline, and closes the connection if admit fails.
func admit(conn net.Conn, first []byte, secret []byte, known func(hello) byte) (hello, error) {
	sent := make([]byte, helloSize)
	n := copy(sent, first)
	// The magic first: a client that begins with 0x00 by mistake should not wait for the deadline.
	if n < len(magic) {
		if _, err := io.ReadFull(conn, sent[n:len(magic)]); err != nil {
			return hello{}, err
		}
		n = len(magic)
	}
	if string(sent[:len(magic)]) != magic {
		return hello{}, errMagic
	}
	if _, err := io.ReadFull(conn, sent[n:]); err != nil {
		return hello{}, err
	}
	h, err := parseHello(sent)
	if err != nil {
		return hello{}, err
	}
	if h.version != version {
		return hello{}, refuse(conn, statusVersion)
	}
	if t, ok := conn.(*tls.Conn); ok && len(t.ConnectionState().VerifiedChains) == 0 {
		return hello{}, refuse(conn, statusCertificate)
	}
	var challenge [challengeSize]byte
	if len(secret) == 0 {
		challenge[0] = known(h)
		if challenge[0] != statusAccepted {
			return hello{}, refuse(conn, challenge[0])
		}
		_, err := conn.Write(challenge[:])
		return h, err
	}
	challenge[0] = statusProve
	rand.Read(challenge[1:])
	if _, err := conn.Write(challenge[:]); err != nil {
		return hello{}, err
	}
	return h, checkProof(conn, secret, sent, challenge[1:], known(h))
}

// checkProof reads the dialer's proof and answers with status and the listener's own.
func checkProof(conn net.Conn, secret, sent, nonce []byte, status byte) error {
	binding, err := tlsBinding(conn)
	if err != nil {
		return err
	}
	var got [proofSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return err
	}
	if !hmac.Equal(got[:], proof(secret, roleDialer, sent, nonce, binding)) {
		return refuse(conn, statusSecret)
	}
	if status != statusAccepted {
		return refuse(conn, status)
	}
	_, err = conn.Write(append([]byte{statusAccepted}, proof(secret, roleListener, sent, nonce, binding)...))
	return err
}

func refuse(conn net.Conn, status byte) error {
	if _, err := conn.Write([]byte{status}); err != nil {
		return err
	}
	return statusError(status)
}
