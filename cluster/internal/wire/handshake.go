package wire

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// The statuses by which a listener answers. Those from statusGroup on, and statusAccepted, come with its name.
const (
	statusAccepted    = 0
	statusProve       = 1
	statusVersion     = 2
	statusCertificate = 3
	statusSecret      = 4
	statusGroup       = 5
	statusKind        = 6
	statusCluster     = 7
	statusPeer        = 8
	statusSelf        = 9
	statusTwin        = 10
	statusAddr        = 11
	statusRolledBack  = 12
	statusForgetful   = 13
	lastStatus        = statusForgetful
)

// ErrRefused is what a handshake fails with if the peer's node does not accept this one, or this one does not
// trust the peer's node.
var ErrRefused = errors.New("the handshake between nodes was refused")

// Further errors of handshakes. Each is an ErrRefused.
var (
	// ErrOtherCluster is the one between nodes of different clusters.
	ErrOtherCluster = fmt.Errorf("%w: the nodes belong to different clusters, or one of them to none yet", ErrRefused)
	// ErrOtherPeer says that another node than the wanted one is at an address.
	ErrOtherPeer = fmt.Errorf("%w: it is meant for another node", ErrRefused)
	// ErrSelf says that a node has reached itself by an address alone. It is no alarm: operators name all nodes in
	// --join.
	ErrSelf = fmt.Errorf("%w: the node has reached itself", ErrRefused)
	// ErrTwin says that another process answers with the ID of the dialing node.
	ErrTwin = fmt.Errorf("%w: another process has this node's ID", ErrRefused)
	// ErrRolledBack says that the listening node knows a later start of the dialing one than this one.
	ErrRolledBack = fmt.Errorf("%w: the directory of the dialing node was rolled back", ErrRefused)
)

// statusError is a refusal, in words that are true at both ends.
func statusError(status byte, h *hello, listener Peer) error {
	text := ""
	switch status {
	case statusCluster:
		return ErrOtherCluster
	case statusPeer:
		return fmt.Errorf("%w: node %s was wanted at %q, where node %s is: does another node have this address now?",
			ErrOtherPeer, h.to, h.addr, listener)
	case statusAddr:
		return fmt.Errorf("%w: node %s was reached by the address %q, which is that of another node as it knows them: "+
			"does somebody pass connections on?", ErrOtherPeer, listener, h.addr)
	case statusRolledBack:
		return fmt.Errorf("%w: the start of node %s has the number %d, and node %s knows one that the directory has not had",
			ErrRolledBack, h.from, h.start.Number, listener)
	case statusForgetful:
		text = fmt.Sprintf("node %s cannot write down that node %s has started: its log says why", listener, h.from)
	case statusTwin:
		return fmt.Errorf("%w, %s", ErrTwin, listener.ID)
	case statusSelf:
		if h.to.ID == "" {
			return fmt.Errorf("%w: the connection to %q came back to node %s, which dialed it", ErrSelf, h.addr, listener)
		}
		text = fmt.Sprintf("the connection to %q came back to node %s, which dialed it: is it an address of the node itself, "+
			"or does somebody send its own messages back to it?", h.addr, listener)
	case statusCertificate:
		text = "the listening node requires a client certificate of the cluster's CA"
	case statusSecret:
		text = "the secrets of the two nodes differ"
	case statusGroup:
		text = fmt.Sprintf("node %s has no replica of the group", listener)
	case statusKind:
		text = fmt.Sprintf("node %s does not know this kind of connection", listener)
	default:
		text = fmt.Sprintf("the answer has status %d, which is unknown: is it a sieved node?", status)
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// meeter is what Options.Met says for a kind of connection.
type meeter func(from Peer, s Start) error

// session is the keys of a handshake with a secret.
type session struct {
	prk  []byte // pseudorandom, of the secret and of the Diffie-Hellman
	hash []byte // of all that both sides have said so far, and of the TLS connection below
}

// newSession derives the keys after the challenge. private is this side's, public the other's.
func newSession(conn net.Conn, secret []byte, private *ecdh.PrivateKey, public, hello, challenge []byte) (*session, error) {
	binding, err := tlsBinding(conn)
	if err != nil {
		return nil, err
	}
	other, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	shared, err := private.ECDH(other)
	if err != nil { // it is all zeros: the other side has chosen its key so
		return nil, fmt.Errorf("%w: the key of the other side is not one: %w", ErrRefused, err)
	}
	s := &session{}
	if s.prk, err = hkdf.Extract(sha256.New, shared, secret); err != nil {
		return nil, err
	}
	s.mix([]byte("sieved peer"), hello, challenge, binding)
	return s, nil
}

// mix hashes what was said. Each part has a size that it says itself or that is fixed.
func (s *session) mix(parts ...[]byte) {
	h := sha256.New()
	h.Write(s.hash)
	for _, part := range parts {
		h.Write(part)
	}
	s.hash = h.Sum(nil)
}

// The purposes of derived keys. Those of the two sides differ, so nothing can be sent back to its maker.
const (
	dialerProof     = "sieved peer dialer proof"
	listenerProof   = "sieved peer listener proof"
	dialerRecords   = "sieved peer dialer records"
	listenerRecords = "sieved peer listener records"
)

func (s *session) derive(purpose string) []byte { return expand(s.prk, purpose+string(s.hash)) }

// tlsBinding returns 32 bytes that only the two ends of this TLS connection know, or nil without TLS.
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

// secure returns the connection to use after the handshake.
func (s *session) secure(conn net.Conn, send, receive string) net.Conn {
	if _, ok := conn.(*tls.Conn); ok {
		return conn // the proofs are bound to it
	}
	return newSecureConn(conn, s.derive(send), s.derive(receive))
}

// greet does the dialer's part of the handshake, and returns the connection to use from then on. The caller has set a
// deadline.
func greet(conn net.Conn, h hello, secret []byte, met meeter) (net.Conn, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	var private *ecdh.PrivateKey
	if len(secret) > 0 {
		var err error
		if private, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return nil, err
		}
		copy(h.key[:], private.PublicKey().Bytes())
	}
	sent := h.append(nil)
	if _, err := conn.Write(sent); err != nil {
		return nil, err
	}
	challenge := make([]byte, 1+keySize)
	if _, err := io.ReadFull(conn, challenge[:1]); err != nil {
		return nil, err
	}
	switch status := challenge[0]; {
	case status == statusVersion:
		return nil, &versionError{nodeName(h.to, h.addr), readVersion(conn)}
	case status == statusProve && private == nil:
		return nil, fmt.Errorf("%w: the other node has a secret and this one has none", ErrRefused)
	case status == statusProve:
		if _, err := io.ReadFull(conn, challenge[1:]); err != nil {
			return nil, err
		}
		s, err := newSession(conn, secret, private, challenge[1:], sent, challenge)
		if err != nil {
			return nil, err
		}
		return prove(conn, s, &h, met)
	case status == statusCertificate || status > lastStatus:
		return nil, statusError(status, &h, Peer{})
	case private != nil:
		return nil, fmt.Errorf("%w: this node has a secret and the other one has none", ErrRefused)
	}
	listener, _, err := readSpeaker(conn)
	if err != nil {
		return nil, err
	}
	return conn, judgeAnswer(challenge[0], &h, listener, met)
}

// prove shows that this side knows the secret, and requires the same of the listener.
func prove(conn net.Conn, s *session, h *hello, met meeter) (net.Conn, error) {
	mine := s.derive(dialerProof)
	if _, err := conn.Write(mine); err != nil {
		return nil, err
	}
	var status [1]byte
	if _, err := io.ReadFull(conn, status[:]); err != nil {
		return nil, err
	}
	if status[0] == statusSecret {
		return nil, statusError(statusSecret, h, Peer{})
	}
	listener, raw, err := readSpeaker(conn)
	if err != nil {
		return nil, err
	}
	s.mix(mine, status[:], raw)
	var got [proofSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return nil, err
	}
	if !hmac.Equal(got[:], s.derive(listenerProof)) {
		return nil, statusError(statusSecret, h, Peer{})
	}
	if err := judgeAnswer(status[0], h, listener, met); err != nil {
		return nil, err
	}
	return s.secure(conn, dialerRecords, listenerRecords), nil
}

// judgeAnswer returns an error unless the listener accepts and is the node that the dialer wants.
func judgeAnswer(status byte, h *hello, listener speaker, met meeter) error {
	switch {
	case status != statusAccepted:
		return statusError(status, h, listener.Peer)
	case listener.ID == h.from.ID:
		return statusError(statusTwin, h, listener.Peer)
	case !listener.is(h.to):
		return statusError(statusPeer, h, listener.Peer)
	}
	if err := met(listener.Peer, listener.Start); err != nil {
		return fmt.Errorf("%w: %v", ErrRefused, err) // no ErrRolledBack, which is about the dialer
	}
	return nil
}

// readSpeaker reads the name and the start of the listener, and returns their bytes too.
func readSpeaker(conn net.Conn) (speaker, []byte, error) {
	raw := make([]byte, 1, peerSize+255+startSize)
	if _, err := io.ReadFull(conn, raw); err != nil {
		return speaker{}, nil, err
	}
	raw = raw[:peerSize+int(raw[0])+startSize]
	if _, err := io.ReadFull(conn, raw[1:]); err != nil {
		return speaker{}, nil, err
	}
	r := reader{b: raw}
	p := speaker{r.peer(), r.start()}
	if !p.ID.Valid() {
		return speaker{}, nil, fmt.Errorf("%w: the listening node has no valid ID", ErrRefused)
	}
	return p, raw, nil
}

// readHello reads the first message of a dialer, after first, the bytes that were read already. It answers if the
// dialer has another version.
func readHello(conn net.Conn, first []byte) (hello, []byte, error) {
	sent := make([]byte, prefixSize+maxBody)
	n := copy(sent, first)
	// The magic first: a client that begins with 0x00 by mistake should not wait for the deadline.
	for _, until := range []int{len(magic), len(magic) + 1, prefixSize} {
		if n < until {
			_, err := io.ReadFull(conn, sent[n:until])
			if errors.Is(err, os.ErrDeadlineExceeded) && until == len(magic) { // peers send all at once
				return hello{}, nil, errMagic
			}
			if err != nil {
				return hello{}, nil, err
			}
			n = until
		}
		if string(sent[:len(magic)]) != magic {
			return hello{}, nil, errMagic
		}
		if theirs := sent[len(magic)]; n > len(magic) && theirs != Version {
			return hello{}, nil, refuseVersion(conn, theirs)
		}
	}
	size := int(binary.BigEndian.Uint16(sent[prefixSize-2:]))
	if size > maxBody {
		return hello{}, nil, fmt.Errorf("a hello has a body of %d bytes, at most %d are expected", size, maxBody)
	}
	sent = sent[:prefixSize+size]
	if _, err := io.ReadFull(conn, sent[n:]); err != nil {
		return hello{}, nil, err
	}
	h, err := parseBody(sent[prefixSize:])
	return h, sent, err
}

// admit does the listener's part of the handshake, after first, the bytes that were read already. It returns the
// connection to use from then on. judge decides whether the dialer is accepted, and returns the listener's name; with a
// secret it is asked after the proof, so that strangers learn nothing. The caller has set a deadline, and closes the
// connection if admit fails.
func admit(conn net.Conn, first []byte, secret []byte, judge func(*hello) (byte, speaker)) (*hello, net.Conn, error) {
	h, sent, err := readHello(conn, first)
	if err != nil {
		return nil, nil, err
	}
	if t, ok := conn.(*tls.Conn); ok && len(t.ConnectionState().VerifiedChains) == 0 {
		return nil, nil, refuse(conn, statusCertificate, &h)
	}
	if len(secret) > 0 {
		conn, err = challenge(conn, secret, sent, &h, judge)
		return &h, conn, err
	}
	status, self := judge(&h)
	if _, err := conn.Write(self.append([]byte{status})); err != nil {
		return nil, nil, err
	}
	if status != statusAccepted {
		return nil, nil, refused(status, &h, self.Peer)
	}
	return &h, conn, nil
}

// challenge requires a proof of the dialer, and answers it.
func challenge(conn net.Conn, secret, sent []byte, h *hello, judge func(*hello) (byte, speaker)) (net.Conn, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	challenge := append([]byte{statusProve}, private.PublicKey().Bytes()...)
	if _, err := conn.Write(challenge); err != nil {
		return nil, err
	}
	var got [proofSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return nil, err
	}
	s, err := newSession(conn, secret, private, h.key[:], sent, challenge)
	if err != nil {
		return nil, err
	}
	mine := s.derive(dialerProof)
	if !hmac.Equal(got[:], mine) {
		return nil, refuse(conn, statusSecret, h)
	}
	status, self := judge(h)
	answer := self.append([]byte{status})
	s.mix(mine, answer)
	if _, err := conn.Write(append(answer, s.derive(listenerProof)...)); err != nil {
		return nil, err
	}
	if status != statusAccepted {
		return nil, refused(status, h, self.Peer)
	}
	return s.secure(conn, listenerRecords, dialerRecords), nil
}

func refuse(conn net.Conn, status byte, h *hello) error {
	if _, err := conn.Write([]byte{status}); err != nil {
		return err
	}
	return refused(status, h, Peer{})
}

// refused is the listener's error, which names the dialer as it says itself.
func refused(status byte, h *hello, self Peer) error {
	return fmt.Errorf("from node %s: %w", h.from, statusError(status, h, self))
}
