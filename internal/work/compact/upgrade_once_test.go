package compact_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Tables that were written with the wanted filters, or without any if the policy has none, gain
// nothing. An upgrade that copied them would copy the whole store each time.
func TestTablesThatHaveTheirFiltersAreLeftAlone(t *testing.T) {
	ranges := []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 10)}
	for name, o := range map[string]*db.Options{
		"no filters":                       {Filters: db.FilterOptions{Policy: filter.None}},
		"range filters alone":              {Filters: db.FilterOptions{Policy: filter.None, RangePolicies: ranges}},
		"a bound that needs no filter":     {Filters: db.FilterOptions{Policy: filter.NewBloomPolicy(10), MaxWastedReads: 0.9999999}},
		"the old name, hashed in two ways": {Filters: db.FilterOptions{Policy: filter.LegacyBloom}},
		"the old name with cache lines": {
			Filters: db.FilterOptions{Policy: filter.Several(filter.NewCacheLineBloomPolicy(10), filter.LegacyBloom)},
		},
		"binary fuse": {Filters: db.FilterOptions{Policy: filter.FusePolicy{}}},
		"packed fuse": {Filters: db.FilterOptions{Policy: filter.Several(filter.NewFusePolicy(7), filter.NewBloomPolicy(10))}},
	} {
		t.Run(name, func(t *testing.T) {
			o.FS = vfs.NewMem()
			d := storetest.Open(t, o)
			for i := range 200 {
				// The length is no multiple of four and the last byte is 0x80 or more, so signed
				// and unsigned characters have different hashes.
				require.NoError(t, d.Put([]byte{'k', byte(i / 8), byte(i), 0, byte(i) | 0x80}, []byte("value"), db.NoSync))
			}
			require.NoError(t, d.Flush())
			r, err := d.UpgradeFilters(context.Background(), nil, nil)
			require.NoError(t, err)
			require.Positive(t, r.Tables)
			if o.Filters.MaxWastedReads > 0 { // a flush leaves room for future tables
				r, err = d.UpgradeFilters(context.Background(), nil, nil)
				require.NoError(t, err)
			}
			require.Zero(t, r.Upgraded)
			require.Equal(t, r.Tables, r.Current)
		})
	}
}
