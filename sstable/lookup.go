package sstable

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
)

// MaxPolicies is the largest number of filter policies of a Reader: a Lookup has room for one hash of each.
const MaxPolicies = 9

// Lookup is a query, for any number of tables: the newest version of a user key whose sequence number is at most seq.
// It keeps the key's hash for each filter policy that a table has needed, so every Reader that it is passed to must
// have been opened with the same ReaderOptions.Policies.
//
// A Lookup allocates nothing and may be on the stack. It belongs to one goroutine, and the user key must not change
// while it is in use. Release returns the memory that it borrowed, once the values that it found are no longer needed.
type Lookup struct {
	// NoFillCache keeps blocks that are read out of the block cache. Init does not change it.
	NoFillCache bool
	// Scanning keeps them out while the cache has no room for more. Init does not change it.
	Scanning bool
	// KeyOnly says that the value is not needed. It may be empty then, and a block that has one
	// large entry is not read: the index has its key. Init does not change it.
	KeyOnly bool

	userKey []byte
	trailer uint64
	hashes  [MaxPolicies + 1]uint64
	hashed  uint16 // bit i: hashes[i] is set

	// scratch is for blocks that have to be read or decompressed; nil until it is
	// needed. A Lookup that is used for several keys keeps it.
	scratch *scratch
}

// Init starts a lookup of userKey as of seq. Values found before are no longer valid.
func (lk *Lookup) Init(userKey []byte, seq uint64) {
	lk.userKey = userKey
	lk.trailer = base.MakeTrailer(seq, base.KindSeek)
	lk.hashed = 0
}

// Release ends the validity of the values that the lookup found, and returns memory
// for reuse. It may be called more than once, and Init starts another lookup.
func (lk *Lookup) Release() {
	if lk.scratch != nil {
		lk.scratch.release()
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

// Hash returns the key's hash for policy i of the readers' policies, which is p or one
// with the same hash. The index after the last one is free for a policy of the caller.
func (lk *Lookup) Hash(i int, p filter.HashPolicy) uint64 {
	if lk.hashed&(1<<i) == 0 {
		lk.SetHash(i, p.KeyHash(lk.userKey))
	}
	return lk.hashes[i]
}

// SetHash sets the hash that Hash will return for policy i. It is meant for callers that
// have the hash, or compute it without a call through an interface.
func (lk *Lookup) SetHash(i int, hash uint64) {
	lk.hashes[i] = hash
	lk.hashed |= 1 << i
}
