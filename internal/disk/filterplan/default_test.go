package filterplan_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// bitsOfLevels returns the bits per key of each level's filters, leaving out tables with few keys.
func bitsOfLevels(t *testing.T, d *db.DB) map[int]float64 {
	r, err := d.Filters(context.Background(), 1)
	require.NoError(t, err)
	bits := map[int]float64{}
	for _, l := range r.Levels {
		bits[l.Level] = l.BitsPerKey
	}
	return bits
}

func TestTheDefaultFilterHasMoreBitsAboveTheLastLevel(t *testing.T) {
	race.SkipInShort(t)
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Filters.Policy = nil
	d := storetest.Grown(t, o, 30300)
	bits := bitsOfLevels(t, d)
	require.GreaterOrEqual(t, len(bits), 3)
	last := 0
	for level := range bits {
		last = max(last, level)
	}
	for level, b := range bits {
		if level == last {
			require.InDelta(t, 10.5, b, 1)
		} else {
			require.InDelta(t, 15.5, b, 1.5, "level %d", level) // tables are small: lines are rounded up
		}
	}
	reads, _ := storetest.Wasted(t, d, 20000)
	require.Less(t, reads, 0.014)

	r, err := d.UpgradeFilters(context.Background(), nil, nil)
	require.NoError(t, err)
	require.Zero(t, r.Upgraded, "the filters are up to date")
	require.NoError(t, d.Close())

	o.Filters.Policy = filter.NewCacheLineBloomPolicy(10)
	d = storetest.Grown(t, storetest.BudgetOptions(vfs.NewMem()), 30300)
	uniform, _ := storetest.Wasted(t, d, 20000)
	require.Greater(t, uniform, 1.5*reads)
}
