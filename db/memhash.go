package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// memHash knows where a lookup keeps the hash for the filters of memtables. It is also the
// hash of cache-line and binary fuse filters (memtable.Hash and their KeyHash are all XXH3),
// so if tables have those, a lookup computes it once for all runs.
type memHash struct {
	slot   int
	policy filter.HashPolicy
}

// newMemHash finds the slot for readers with these policies: that of the first policy with
// the same hash, or the one after the last.
func newMemHash(policies []filter.Policy) memHash {
	h := memHash{slot: len(policies), policy: filter.NewCacheLineBloomPolicy(defaultFilterBits)}
	for i, p := range policies {
		if filter.SameHash(p, h.policy) {
			h.slot = i
			break
		}
	}
	return h
}

// set computes the hash of the lookup's key.
func (h *memHash) set(lookup *sstable.Lookup) {
	lookup.SetHash(h.slot, memtable.Hash(lookup.UserKey()))
}

// of returns the hash. set was called before.
func (h *memHash) of(lookup *sstable.Lookup) uint64 { return lookup.Hash(h.slot, h.policy) }
