package sstable

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// MaxPolicies is how many filter policies a Reader can be given: a Lookup has
// room for one hash of each.
const MaxPolicies = 9

// Lookup is one question asked of any number of tables: the newest version of
// a user key that is at most as new as a sequence number. It keeps the key's
// hash for each filter policy once a table has needed it, so every Reader that
// it is passed to must have been opened with the same ReaderOptions.Policies.
//
// A Lookup allocates nothing and may live on the stack. It belongs to one
// goroutine; the user key must not change while it is in use. Release gives back
// the memory that it borrowed, once the values it found are no longer needed.
type Lookup struct {
	userKey []byte
	trailer uint64
	hashes  [MaxPolicies + 1]uint64
	hashed  uint16 // bit i: hashes[i] is set

	// scratch is for blocks that have to be read or decompressed; nil until one
	// has. Whoever looks up keys one after another uses the same.
	scratch *scratch
}

// Init starts a lookup of userKey as of seq. Values found before are valid no more.
func (lk *Lookup) Init(userKey []byte, seq uint64) {
	lk.userKey = userKey
	lk.trailer = base.MakeTrailer(seq, base.KindSeek)
	lk.hashed = 0
}

// Release ends the use of the values that the lookup found. It may be called more
// than once, and Init begins anew. Without it, memory is allocated that need not be.
func (lk *Lookup) Release() {
	if lk.scratch != nil {
		lk.scratch.rest()
		lk.scratch = nil
	}
}

// takeScratch returns the lookup's memory for blocks.
func (lk *Lookup) takeScratch() *scratch {
	if lk.scratch == nil {
		lk.scratch = scratches.Get().(*scratch)
	}
	return lk.scratch
}

// UserKey returns the key looked up.
func (lk *Lookup) UserKey() []byte { return lk.userKey }

// Hash returns the key's hash for policy i of the readers' policies, which is p or
// one of the same hash. Behind the last one there is room for one policy more, of the
// caller's own.
func (lk *Lookup) Hash(i int, p filter.HashPolicy) uint64 {
	if lk.hashed&(1<<i) == 0 {
		lk.SetHash(i, p.KeyHash(lk.userKey))
	}
	return lk.hashes[i]
}

// SetHash says what Hash is to return for policy i, before it is asked: for callers
// who have the hash, or compute it without a call through an interface.
func (lk *Lookup) SetHash(i int, hash uint64) {
	lk.hashes[i] = hash
	lk.hashed |= 1 << i
}
