package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// memHash knows where a lookup keeps the hash that memtables' filters take. It is
// that of cache-line and binary fuse filters too (memtable.Hash and their KeyHash are
// all XXH3), so where tables have those, a lookup computes it once for all its runs.
type memHash struct {
	slot   int
	policy filter.HashPolicy
}

// newMemHash finds the place for readers with these policies: that of the first of
// the same hash, or the one behind the last.
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

// of returns the hash, which was set.
func (h *memHash) of(lookup *sstable.Lookup) uint64 { return lookup.Hash(h.slot, h.policy) }
