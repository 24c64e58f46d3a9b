package db_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: for tables with 1.8 bits per key on average the report counted 1, and the key counts of
// upgraded tables were forgotten. The next call estimated them from the tiny tables that were left
// alone, at a tenth of their real size, and gave the tables four times the budget.
func TestAnUpgradeWithinABudgetIsCountedAndNotRepeated(t *testing.T) {
	o := budgetOptions(vfs.NewMem())
	o.Filters.Policy = filter.NewCacheLineBloomPolicy(20)
	require.NoError(t, grown(t, o, 20000).Close())
	o.Filters.Budget = 8000
	d := openTest(t, o)
	settle(t, d)
	old := map[uint64]bool{}
	d.State().Version.Files(func(_ int, f *version.FileMeta) { old[f.Num] = true })
	first, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Greater(t, first.Upgraded, first.Tables/2)
	require.Positive(t, first.Current, "some tables are so small that any filter is one cache line")
	bytes := uint64(0)
	d.State().Version.Files(func(_ int, f *version.FileMeta) {
		if old[f.Num] {
			return
		}
		require.NotNil(t, tables.Of(f).FilterSizes())
		r, err := d.TableCache().Get(f)
		require.NoError(t, err)
		filters, err := r.AllFilters()
		require.NoError(t, err)
		bytes += filters.Bytes()
	})
	require.Equal(t, bytes, first.FilterBytesAfter)
	again, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Zero(t, again.Upgraded)
	require.InEpsilon(t, again.WastedReadsBefore, first.WastedReadsAfter, 1e-9)
}

// The bug: a lookup had opened the one table of its level that has a single key. The other tables
// were assumed to have as few keys for their size, and new tables got filters far above the budget.
func TestKeyCountsAreNotEstimatedFromAnUnusualTable(t *testing.T) {
	o := budgetOptions(vfs.NewMem())
	d := grown(t, o, 20000)
	require.NoError(t, d.Compact(background, nil, nil))
	odd := strings.Repeat("\xff", 20)
	l, err := d.NewLoader()
	require.NoError(t, err)
	require.NoError(t, l.Put([]byte(odd), nil))
	require.NoError(t, l.Commit())
	files := d.State().Version.Levels[db.NumLevels-1].Files
	require.Greater(t, len(files), 3*filterplan.LearnFrom)
	require.Equal(t, odd, string(base.UserKey(files[len(files)-1].Smallest)), "on the level of the others")
	require.NoError(t, d.Close())
	o.Filters.Budget = 8000
	bits := func(key string) float64 { // of the last level
		d := mustOpen(t, o)
		defer func() { require.NoError(t, d.Close()) }()
		if key != "" {
			requireValue(t, d, []byte(key), nil)
		}
		return float64(d.Plan().LevelBits()[db.NumLevels-1])
	}
	require.InEpsilon(t, bits(""), bits(odd), 0.05)
}
