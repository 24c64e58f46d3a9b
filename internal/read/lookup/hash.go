package lookup

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// keyHash knows where a lookup keeps the hash for the filters of memtables. It is also the
// hash of cache-line and binary fuse filters (memtable.Hash and their KeyHash are all XXH3),
// so if tables have those, a lookup computes it once for all runs.
type keyHash struct {
	slot   int
	policy filter.HashPolicy
}

// newKeyHash finds the slot for readers with these policies: that of the first policy with
// the same hash, or the one after the last.
func newKeyHash(policies []filter.Policy) keyHash {
	h := keyHash{slot: len(policies), policy: filter.NewCacheLineBloomPolicy(10)}
	for i, p := range policies {
		if filter.SameHash(p, h.policy) {
			h.slot = i
			break
		}
	}
	return h
}

// set computes the hash of the lookup's key.
func (h *keyHash) set(lookup *sstable.Lookup) {
	lookup.SetHash(h.slot, memtable.Hash(lookup.UserKey()))
}

// of returns the hash. set was called before.
func (h *keyHash) of(lookup *sstable.Lookup) uint64 { return lookup.Hash(h.slot, h.policy) }
