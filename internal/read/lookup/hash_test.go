package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

func TestMemtablesAndCacheLineFiltersShareTheirHash(t *testing.T) {
	lines := filter.NewCacheLineBloomPolicy(7)
	custom := struct{ filter.BloomPolicy }{lines} // has its name, but perhaps not its hash
	cases := []struct {
		name     string
		policies []filter.Policy
		slot     int
	}{
		{"no filters", nil, 0},
		{"another kind of filter", []filter.Policy{filter.NewBloomPolicy(10), filter.LegacyBloom}, 2},
		{"cache lines", []filter.Policy{filter.NewBloomPolicy(10), lines, filter.LegacyBloom}, 1},
		{"binary fuse before cache lines", []filter.Policy{filter.NewBloomPolicy(10), filter.FusePolicy{}, lines}, 1},
		{"a custom policy of that name", []filter.Policy{custom}, 1},
		{"the maximum number of policies", make([]filter.Policy, sstable.MaxPolicies), sstable.MaxPolicies},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newKeyHash(c.policies)
			require.Equal(t, c.slot, h.slot)
			for _, key := range [][]byte{nil, []byte("k"), []byte("key0000001"), make([]byte, 300)} {
				var lookup sstable.Lookup
				lookup.Init(key, 1)
				require.Equal(t, memtable.Hash(key), h.of(&lookup))
				require.Equal(t, lines.KeyHash(key), lookup.Hash(h.slot, lines))
			}
		})
	}
}
