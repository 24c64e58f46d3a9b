package wire

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// ErrVersion is the one between nodes that speak different versions of the protocol. Its text names both, and says
// which node has the older one.
var ErrVersion = fmt.Errorf("%w: the versions of the protocol between nodes differ", ErrRefused)

// versionError is an ErrVersion.
type versionError struct {
	who    string // as the text says it
	theirs byte   // 0 if the other node did not say: version 1 does not
}

func (e *versionError) Error() string {
	theirs, older := fmt.Sprintf("version %d", e.theirs), e.who
	if e.theirs == 0 {
		theirs = "an older version"
	} else if e.theirs > Version {
		older = "this node"
	}
	return fmt.Sprintf("%v: %s speaks %s and this node version %d: upgrade %s; if these versions have to change, stop all nodes and "+
		"start them again with one version of sieved", ErrVersion, e.who, theirs, Version, older)
}

func (e *versionError) Unwrap() error { return ErrVersion }

// Logged reports that this package logs the error by itself, so that who tries again and again need not.
func (e *versionError) Logged() bool { return true }

// nodeName is how a text names a node.
func nodeName(p Peer, addr string) string {
	switch {
	case p.ID != "":
		return "node " + string(p.ID)
	case addr != "":
		return "the node at " + addr
	}
	return "the other node"
}

// fromOffset is where the name of the dialer is in the body of a hello, in all versions from 2 on, so that a refusal
// can name it.
const fromOffset = 1 + 4 + clusterSize + keySize + processSize

// refuseVersion answers a dialer of another version. What came of its hello after the version is not read before: the
// dialer may send nothing more.
func refuseVersion(conn net.Conn, theirs byte) error {
	if _, err := conn.Write([]byte{statusVersion, Version}); err != nil {
		return err
	}
	// If bytes of the dialer are left unread, closing resets the connection, and it may not get the answer.
	rest := make([]byte, 4<<10)
	n, _ := conn.Read(rest)
	from := Peer{}
	if rest = rest[:n]; theirs > 1 && n > 2+fromOffset {
		r := reader{b: rest[2+fromOffset:]}
		if p := r.peer(); !r.short && p.ID.Valid() {
			from = p
		}
	}
	return &versionError{nodeName(from, ""), theirs}
}

func readVersion(conn net.Conn) byte {
	var theirs [1]byte
	_, _ = conn.Read(theirs[:]) // version 1 sends none
	return theirs[0]
}

// versions remembers nodes of other versions.
type versions struct {
	mu   sync.Mutex
	seen map[versionError]*mismatch
}

type mismatch struct {
	dialed     bool      // this node asked for the other one; strangers cannot cause that
	at, logged time.Time // when it was met and logged last
}

const (
	versionAgain = 10 * time.Minute // between two lines about a node
	versionNews  = time.Minute      // how long a node counts after it was met
	maxVersions  = 64               // strangers may use many names
)

// meet notes a node, and reports whether it is logged now.
func (v *versions) meet(e versionError, dialed bool, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = map[versionError]*mismatch{}
	}
	m := v.seen[e]
	if m == nil {
		if len(v.seen) >= maxVersions && !dialed {
			return false
		}
		m = &mismatch{}
		v.seen[e] = m
	}
	m.at, m.dialed = now, m.dialed || dialed
	if !m.logged.IsZero() && now.Sub(m.logged) < versionAgain {
		return false
	}
	m.logged = now
	return true
}

// OtherVersions returns a sentence about each node of another version that this one has lately called.
func (l *Listener) OtherVersions() (texts []string) {
	l.versions.mu.Lock()
	defer l.versions.mu.Unlock()
	for e, m := range l.versions.seen {
		if m.dialed && time.Since(m.at) < versionNews {
			texts = append(texts, e.Error())
		}
	}
	slices.Sort(texts)
	return texts
}

// noteVersion logs an error if it is an ErrVersion and was not logged lately, and reports whether it is one.
func (l *Listener) noteVersion(err error, dialed bool, remote string) bool {
	var e *versionError
	if !errors.As(err, &e) {
		return false
	}
	if l.versions.meet(*e, dialed, time.Now()) {
		l.o.Logger.Error("a node speaks another version of the protocol", "remote", remote, "error", err)
	}
	return true
}
