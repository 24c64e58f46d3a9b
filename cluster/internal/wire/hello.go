package wire

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Version is the version of everything that travels between nodes: the handshake and the records of this package,
// its frames, the methods of control calls with their JSON, gossip and the map among them, what the streams of raft and
// of confirmations carry, and the streams of states and backups. It is one number: a node speaks one version, and nodes
// of different versions refuse each other in the handshake. Both name the other node and the two versions in their
// logs. It must be raised by each change of any of these that a node of the version before would misread or could not
// answer; not for what that node can ignore, as a new field of JSON that it does not need, or a new method that callers
// may find missing. The bytes up to the version itself never change, nor does the place of the dialer's name after it.
//
//	1  before the handshake named both nodes
//	2  before requests of a plan had its mandate
//	3  before a handshake had the numbers of the two nodes' starts
//	4  now
const Version = 4

// The bytes of the handshake. They cross the wire and never change within a version.
const (
	magic = "\x00sieved\r"

	kindRaft    = 1
	kindControl = 2
	kindConfirm = 3

	clusterSize = 16
	processSize = 16
	keySize     = 32
	proofSize   = sha256.Size
	nonceSize   = 8
	keptNonces  = 32
	startSize   = 8 + keptNonces*nonceSize

	// prefixSize is what comes before the body of a hello: magic, version, length of the body.
	prefixSize = len(magic) + 1 + 2
	maxAddr    = 512
	peerSize   = 1 + 8 // without the ID
	maxBody    = 1 + 4 + clusterSize + keySize + processSize + 2*(peerSize+kv.MaxNodeID) + 2 + maxAddr + startSize
)

var errMagic = errors.New("the first bytes are not those of a peer")

// Peer is a node as others know it.
type Peer struct {
	// ID is the node's; "": any.
	ID kv.NodeID
	// Incarnation is the node's; 0: any, or none yet.
	Incarnation uint64
}

// ParsePeer returns the node of a server of raft: "ID" or "ID.incarnation".
func ParsePeer(server string) (Peer, error) {
	id, after, found := strings.Cut(server, ".")
	p := Peer{ID: kv.NodeID(id)}
	if !p.ID.Valid() {
		return Peer{}, fmt.Errorf("the server %q has no ID of a node", server)
	}
	if !found {
		return p, nil
	}
	var err error
	if p.Incarnation, err = strconv.ParseUint(after, 10, 64); err != nil || p.Incarnation == 0 {
		return Peer{}, fmt.Errorf("the server %q has no incarnation of a node", server)
	}
	return p, nil
}

func (p Peer) String() string {
	switch {
	case p.ID == "":
		return "of any ID"
	case p.Incarnation == 0:
		return string(p.ID)
	}
	return string(p.ID) + "." + strconv.FormatUint(p.Incarnation, 10)
}

// Target is where a connection goes, and which node must be there.
type Target struct {
	Peer
	Addr string
}

// At returns the target of any node at an address.
func At(addr string) Target { return Target{Addr: addr} }

func (t Target) String() string {
	if t.ID == "" {
		return t.Addr
	}
	return t.Peer.String() + " at " + t.Addr
}

// is reports whether p is meant by want.
func (p Peer) is(want Peer) bool {
	return (want.ID == "" || want.ID == p.ID) && (want.Incarnation == 0 || want.Incarnation == p.Incarnation)
}

func (p Peer) append(dst []byte) []byte {
	dst = append(dst, byte(len(p.ID)))
	dst = append(dst, p.ID...)
	return binary.BigEndian.AppendUint64(dst, p.Incarnation)
}

// Start is what the directory of a node keeps about the starts of the node, so that others notice an older copy of it.
type Start struct {
	// Number counts the starts; 0: the node has no directory yet.
	Number uint64 `json:"number"`
	// Nonces are random bytes, 8 for each of the last starts, the newest first.
	Nonces []byte `json:"nonces"`
}

// Next returns the next start.
func (s Start) Next() Start {
	nonces := make([]byte, nonceSize, nonceSize+len(s.Nonces))
	rand.Read(nonces)
	nonces = append(nonces, s.Nonces...)
	return Start{s.Number + 1, nonces[:min(len(nonces), keptNonces*nonceSize)]}
}

// Brief is a start without those before.
func (s Start) Brief() Start { return Start{s.Number, s.Nonces[:min(len(s.Nonces), nonceSize)]} }

// Follows reports whether another start, which is brief, is the same or one of those before, as far as s knows these.
func (s Start) Follows(other Start) bool {
	back := s.Number - other.Number
	return s.Number >= other.Number && (back >= keptNonces ||
		bytes.HasPrefix(s.Nonces[min(len(s.Nonces), int(back)*nonceSize):], other.Nonces))
}

func (s Start) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, s.Number)
	var nonces [keptNonces * nonceSize]byte
	copy(nonces[:], s.Nonces)
	return append(dst, nonces[:]...)
}

// speaker is a node as it names itself.
type speaker struct {
	Peer
	Start
}

func (s speaker) append(dst []byte) []byte { return s.Start.append(s.Peer.append(dst)) }

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
	kind    byte
	group   kv.GroupID
	cluster clusterSum
	key     [keySize]byte     // the dialer's public key of this handshake; zeros without a secret
	process [processSize]byte // drawn when the dialer's listener began
	from    Peer
	to      Peer
	addr    string // as dialed
	start   Start  // of the dialer
}

func (h *hello) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, Version, 0, 0)
	start := len(dst)
	dst = append(dst, h.kind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.group))
	dst = append(dst, h.cluster[:]...)
	dst = append(dst, h.key[:]...)
	dst = append(dst, h.process[:]...)
	dst = h.from.append(dst)
	dst = h.to.append(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.addr)))
	dst = append(dst, h.addr...)
	dst = h.start.append(dst)
	binary.BigEndian.PutUint16(dst[start-2:], uint16(len(dst)-start))
	return dst
}

// check returns an error if the hello cannot be encoded, or must not be.
func (h *hello) check() error {
	switch {
	case !h.from.ID.Valid():
		return fmt.Errorf("the ID of the dialing node is not valid: %q", h.from.ID)
	case h.to.ID != "" && !h.to.ID.Valid():
		return fmt.Errorf("the ID of the wanted node is not valid: %q", h.to.ID)
	case h.to.ID == "" && h.to.Incarnation != 0:
		return errors.New("a wanted incarnation needs the ID of its node")
	case len(h.addr) > maxAddr:
		return fmt.Errorf("an address has %d bytes, at most %d are supported", len(h.addr), maxAddr)
	}
	return nil
}

// parseBody decodes what follows the prefix of a hello.
func parseBody(b []byte) (h hello, err error) {
	r := reader{b: b}
	h.kind = r.take(1)[0]
	h.group = kv.GroupID(binary.BigEndian.Uint32(r.take(4)))
	copy(h.cluster[:], r.take(clusterSize))
	copy(h.key[:], r.take(keySize))
	copy(h.process[:], r.take(processSize))
	h.from, h.to = r.peer(), r.peer()
	h.addr = string(r.take(int(binary.BigEndian.Uint16(r.take(2)))))
	h.start = r.start()
	if r.short || len(r.b) > 0 {
		return hello{}, fmt.Errorf("a hello of %d bytes is not well formed", len(b))
	}
	return h, h.check()
}

// reader takes bytes from the front. If there are too few, it returns zeros and notes that.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || len(r.b) < n {
		r.short = true
		return make([]byte, n)
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) peer() Peer {
	id := kv.NodeID(r.take(int(r.take(1)[0])))
	return Peer{ID: id, Incarnation: binary.BigEndian.Uint64(r.take(8))}
}

func (r *reader) start() Start {
	return Start{binary.BigEndian.Uint64(r.take(8)), bytes.Clone(r.take(keptNonces * nonceSize))}
}
