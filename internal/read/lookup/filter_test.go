package lookup_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func TestATableWhoseFilterDeniesTheKeyIsNotRead(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.FilledLevels(t, storetest.WatchedOptions(w, fixture.Never), 4000)
	parts := w.During(func() {
		for i := range 4000 {
			_, err := d.Get(fixture.Key(2 * i))
			require.Equal(t, db.ErrNotFound, err)
		}
	})
	require.Zero(t, parts["index"], "a filter is consulted before the index")
	require.Zero(t, parts["data"])
	require.Positive(t, parts["end"], "the filters themselves were read")
	m := d.Metrics().Total()
	require.Equal(t, m.FilterChecks, m.FilterNegatives)
	require.GreaterOrEqual(t, m.FilterChecks, uint64(4000))
	require.Zero(t, m.BlocksFromDisk+m.IndexReads)
}

func TestATableWhoseFilterMatchesTheKeyCostsOneBlock(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.FilledLevels(t, storetest.WatchedOptions(w, fixture.Always), 4000)
	for i := range 4000 { // so that every index is loaded
		result.Of(d.Get(fixture.Key(2 * i)))(t)
	}
	for i := 0; i < 4000; i += 37 {
		x := storetest.Explain(t, d, fixture.Key(2*i))
		parts := w.During(func() {
			result.Of(d.Get(fixture.Key(2 * i)))(t)
		})
		require.Equal(t, map[string]int{"data": len(x.Steps) - 1}, parts, "one data block for each table consulted")
	}
}

func TestALookupInOneTableReadsOneBlock(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.Open(t, storetest.WatchedOptions(w, fixture.Always))
	storetest.Fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	_, err := d.Get(fixture.Key(1)) // loads filter and index
	require.NoError(t, err)
	parts := w.During(func() { storetest.RequireValue(t, d, fixture.Key(50), fixture.Value(50)) })
	require.Equal(t, map[string]int{"data": 1}, parts)
}

func TestBloomFalsePositivesAreTheOnlyBlocksReadForMissingKeys(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.FilledLevels(t, storetest.WatchedOptions(w, nil), 4000)
	parts := w.During(func() {
		for i := range 4000 {
			_, err := d.Get(fixture.Key(2*i + 1))
			require.Equal(t, db.ErrNotFound, err)
		}
	})
	m := d.Metrics().Total()
	require.Equal(t, m.FilterFalsePositives, uint64(parts["data"]))
	require.Equal(t, m.FilterFalsePositives, m.BlocksFromDisk)
	require.Equal(t, m.IndexReads, uint64(parts["index"]))
	require.Zero(t, m.FilterTruePositives)
	// The keys differ in their last digit, on which LevelDB's hash collides, so the rate exceeds
	// the 1 % of random keys.
	require.Less(t, float64(m.FilterFalsePositives), 0.2*float64(m.FilterChecks))
	require.Positive(t, m.FilterNegatives)
}

func TestWithoutFiltersEveryTableIsRead(t *testing.T) {
	w := fixture.WatchTables(t)
	o := storetest.WatchedOptions(w, filter.None)
	d := storetest.FilledLevels(t, o, 4000)
	_, err := d.Get(fixture.Key(1))
	require.Equal(t, db.ErrNotFound, err)
	m := d.Metrics().Total()
	require.Zero(t, m.FilterChecks)
	require.Positive(t, m.Reads)
	require.Equal(t, m.Reads, m.BlocksFromDisk)
}

func TestFiltersOfUnknownPoliciesAreIgnored(t *testing.T) {
	fs := vfs.NewMem()
	o := storetest.Options(fs)
	o.Filters.Policy = fixture.Always
	d := storetest.MustOpen(t, o)
	storetest.Fill(t, d, 0, 1000)
	storetest.Settle(t, d)
	require.NoError(t, d.Close())
	o.Filters.Policy = nil
	d = storetest.Open(t, o)
	for i := range 1000 {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
	m := d.Metrics()
	require.Zero(t, m.Total().FilterChecks)
	require.Equal(t, m.Tables.Open, m.Tables.WithUnknownFilter)
	require.Positive(t, m.Tables.Open)
}

func TestMetricsAgreeWithTheFileSystem(t *testing.T) {
	w := fixture.WatchTables(t)
	o := storetest.WatchedOptions(w, nil)
	o.Cache.Size = 64 << 10 // some hits, some misses
	d := storetest.FilledLevels(t, o, 4000)
	before := d.Metrics()
	require.Zero(t, before.Total().Reads)
	parts := w.During(func() {
		for i := range 8000 {
			_, _ = d.Get(fixture.Key(i))
		}
	})
	m := d.Metrics()
	require.EqualValues(t, 8000, m.Lookups.Count)
	require.EqualValues(t, 4000, m.Lookups.Found)
	require.EqualValues(t, parts["data"], m.Total().BlocksFromDisk)
	require.EqualValues(t, parts["index"], m.Total().IndexReads)
	require.EqualValues(t, m.Tables.Open, m.Tables.Openings)
	require.EqualValues(t, m.Tables.Open, parts["end"])
	require.EqualValues(t, parts["end"]+parts["meta"], m.Tables.OpeningReads)
	require.Positive(t, m.Total().BlocksFromCache)
	require.Positive(t, m.Tables.FilterBytes)
	require.Positive(t, m.Tables.IndexBytes)
	require.LessOrEqual(t, m.Cache.Bytes, m.Cache.Capacity)
	require.EqualValues(t, 4000, m.Total().FilterTruePositives)

	// Counters outlive the tables for which they counted.
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Equal(t, m.Total().FilterChecks, d.Metrics().Total().FilterChecks)
	require.Equal(t, m.Total().BlocksFromDisk, d.Metrics().Total().BlocksFromDisk)
}

func TestExplainReportsWhatGetDoes(t *testing.T) {
	w := fixture.WatchTables(t)
	d := storetest.FilledLevels(t, storetest.WatchedOptions(w, nil), 4000)
	require.NoError(t, d.Delete(fixture.Key(0), db.NoSync))
	x := storetest.Explain(t, d, fixture.Key(0))
	require.True(t, x.Deleted)
	require.Equal(t, "memtable", x.Steps[0].Run)

	var read, saved, wasted int
	for i := 1; i < 2000; i++ {
		parts := w.During(func() {
			x := storetest.Explain(t, d, fixture.Key(i))
			require.Equal(t, i%2 == 0, x.Found)
			require.Contains(t, x.String(), fmt.Sprintf(": %d disk read", x.DiskReads))
			read += x.DiskReads
			saved += x.ReadsSaved
			wasted += x.ReadsWasted
		})
		read -= parts["data"] + parts["index"]
		require.Zero(t, read, "key %d", i)
	}
	require.Positive(t, saved)
	require.Positive(t, wasted)
	require.Zero(t, d.Metrics().Lookups.Count, "Explain counts nothing")
}
