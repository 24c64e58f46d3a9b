package db

import (
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/sstable"
)

// memHash knows where a lookup keeps the hash that memtables' filters take. It is
// that of cache-line filters too (memtable.Hash and BloomPolicy.KeyHash are both
// XXH3), so where tables have those, a lookup computes it once for all its runs.
type memHash struct {
	slot   int
	policy filter.HashPolicy
}

// newMemHash finds the place for readers with these policies: that of the
// cache-line policy, or the one behind the last.
func newMemHash(policies []filter.Policy) memHash {
	h := memHash{slot: len(policies), policy: filter.NewCacheLineBloomPolicy(defaultFilterBits)}
	for i, p := range policies {
		// By type as well: a policy of the user's may have the name and another hash.
		if bloom, ok := p.(filter.BloomPolicy); ok && bloom.Name() == h.policy.Name() {
			h.slot = i
		}
	}
	return h
}

func (h *memHash) of(lookup *sstable.Lookup) uint64 { return lookup.Hash(h.slot, h.policy) }
