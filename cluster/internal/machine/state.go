package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
)

// The keys of what the machine itself stores. They reach the disk and never change.
var (
	appliedKey       = layout.Meta("applied")       // index (8) | term (8)
	chainKey         = layout.Meta("chain")         // of the last entry that counted: layout.AppendChain
	clockKey         = layout.Meta("clock")         // milliseconds since 1970 (8)
	configurationKey = layout.Meta("configuration") // index (8) | raft.EncodeConfiguration
)

// position is how far a state is. It does not change.
type position struct {
	index, term   uint64       // of the last entry that was applied, 0 and 0: none
	chain         layout.Chain // of the last entry that counted
	clock         int64
	configIndex   uint64
	configuration raft.Configuration
}

// put adds what differs from an older position to a batch.
func (p *position) put(b *db.Batch, old *position) {
	b.Put(appliedKey, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.index), p.term))
	if p.chain != old.chain {
		b.Put(chainKey, layout.AppendChain(nil, p.chain))
	}
	if p.clock != old.clock {
		b.Put(clockKey, binary.BigEndian.AppendUint64(nil, uint64(p.clock)))
	}
	if p.configIndex != old.configIndex {
		b.Put(configurationKey, append(binary.BigEndian.AppendUint64(nil, p.configIndex), raft.EncodeConfiguration(p.configuration)...))
	}
}

// readPosition reads how far a state is.
func readPosition(r db.Reader) (p position, err error) {
	applied, err := getMeta(r, appliedKey, 16)
	if err != nil {
		return p, err
	}
	if applied != nil {
		p.index, p.term = binary.BigEndian.Uint64(applied), binary.BigEndian.Uint64(applied[8:])
	}
	chain, err := getMeta(r, chainKey, layout.ChainLen)
	if err != nil {
		return p, err
	}
	if chain != nil {
		p.chain = layout.ParseChain(chain)
	}
	if p.clock, err = readClock(r); err != nil {
		return p, err
	}
	b, err := r.Get(configurationKey)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return p, nil
	case err != nil:
		return p, err
	case len(b) < 8:
		return p, fmt.Errorf("the configuration of a state has %d bytes", len(b))
	}
	p.configIndex = binary.BigEndian.Uint64(b)
	p.configuration, err = decodeConfiguration(b[8:])
	return p, err
}

func readClock(r db.Reader) (int64, error) {
	b, err := getMeta(r, clockKey, 8)
	if err != nil || b == nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// getMeta returns a value of a known length, nil if there is none.
func getMeta(r db.Reader, key []byte, length int) ([]byte, error) {
	b, err := r.Get(key)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case len(b) != length:
		return nil, fmt.Errorf("a value of a state has %d bytes, want %d", len(b), length)
	}
	return b, nil
}

// decodeConfiguration is raft.DecodeConfiguration without its panic.
func decodeConfiguration(b []byte) (c raft.Configuration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a configuration cannot be decoded: %v", r)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}

// state is a database with the number of those that use it.
type state struct {
	name string // of its directory
	db   *db.DB
	at   atomic.Pointer[position]
	// version is odd while entries are being applied. It changes with each batch.
	version atomic.Uint64
	// users counts the users, the machine being one. When it is 0 unused is closed.
	users  atomic.Int64
	unused chan struct{}
}

func newState(name string, d *db.DB, at position) *state {
	st := &state{name: name, db: d, unused: make(chan struct{})}
	st.at.Store(&at)
	st.users.Store(1)
	return st
}

func (st *state) release() {
	if st.users.Add(-1) == 0 {
		close(st.unused)
	}
}

// write applies a batch that leads to a position.
func (st *state) write(b *db.Batch, to position) error {
	st.version.Add(1)
	defer st.version.Add(1)
	if err := st.db.Apply(b, db.Buffered); err != nil {
		return err
	}
	st.at.Store(&to)
	return nil
}

// snapshot returns a snapshot of the database, which the caller closes, and the clock at its moment. It
// never waits for entries that are being applied: then the snapshot itself has the clock.
func (st *state) snapshot() (s *db.Snapshot, clock int64, err error) {
	before := st.version.Load()
	clock = st.at.Load().clock
	s = st.db.NewSnapshot()
	if before%2 == 0 && st.version.Load() == before {
		return s, clock, nil
	}
	if clock, err = readClock(s); err != nil {
		return nil, 0, errors.Join(err, s.Close())
	}
	return s, clock, nil
}
