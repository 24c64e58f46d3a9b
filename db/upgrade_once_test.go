package db

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/vfs"
)

// Tables that were written with the wanted filters, or without any if the policy has none, gain
// nothing. An upgrade that copied them would copy the whole store each time.
func TestTablesThatHaveTheirFiltersAreLeftAlone(t *testing.T) {
	ranges := []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 10)}
	for name, o := range map[string]*Options{
		"no filters":                       {Filters: FilterOptions{Policy: filter.None}},
		"range filters alone":              {Filters: FilterOptions{Policy: filter.None, RangePolicies: ranges}},
		"a bound that needs no filter":     {Filters: FilterOptions{Policy: filter.NewBloomPolicy(10), MaxWastedReads: 0.9999999}},
		"the old name, hashed in two ways": {Filters: FilterOptions{Policy: filter.LegacyBloom}},
		"the old name with cache lines": {
			Filters: FilterOptions{Policy: filter.Several(filter.NewCacheLineBloomPolicy(10), filter.LegacyBloom)},
		},
		"binary fuse": {Filters: FilterOptions{Policy: filter.FusePolicy{}}},
	} {
		t.Run(name, func(t *testing.T) {
			o.FS = vfs.NewMem()
			d := openTest(t, o)
			for i := range 200 {
				// The length is no multiple of four and the last byte is 0x80 or more, so signed
				// and unsigned characters have different hashes.
				require.NoError(t, d.Put([]byte{'k', byte(i / 8), byte(i), 0, byte(i) | 0x80}, []byte("value"), NoSync))
			}
			require.NoError(t, d.Flush())
			r, err := d.UpgradeFilters(background, nil, nil)
			require.NoError(t, err)
			require.Positive(t, r.Tables)
			if o.Filters.MaxWastedReads > 0 { // a flush leaves room for future tables
				r, err = d.UpgradeFilters(background, nil, nil)
				require.NoError(t, err)
			}
			require.Zero(t, r.Upgraded)
			require.Equal(t, r.Tables, r.Current)
		})
	}
}

// LevelDB's tables do not record how many keys they have, but that is not needed to remove their
// filters.
func TestTablesLoseTheirFiltersOnce(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Filters.Policy = filter.None
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	first, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Equal(t, first.Tables, first.Upgraded)
	second, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Zero(t, second.Upgraded)
}

// An upgrade notices damage to the data of a table only when it copies the table.
func TestADamagedTableIsNotInTheFiguresOfAnUpgrade(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Filters.Policy = filter.NewBloomPolicy(10)
	d := openTest(t, o)
	for i := range 100 {
		require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
	}
	require.NoError(t, d.Flush())
	name := filepath.Join("db", d.set.Current().Levels[0].Files[0].Name())
	require.NoError(t, d.Close())
	data := readFile(t, mem, name)
	data[100] ^= 1
	writeFile(t, mem, name, data)
	o.Filters.Policy = filter.FusePolicy{}
	d = openTest(t, o)
	r, err := d.UpgradeFilters(background, nil, nil)
	require.ErrorIs(t, err, ErrCorruption)
	r.Duration = 0
	require.Equal(t, UpgradeReport{Tables: 1, Damaged: 1}, r)
}
