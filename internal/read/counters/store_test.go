package counters_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// explained calls Explain for the first keys and returns the Metrics that the same lookups should cause.
func explained(t *testing.T, d *db.DB, keys int) *db.Metrics {
	m := &db.Metrics{}
	for i := range keys {
		x := storetest.Explain(t, d, fixture.Key(i))
		m.Lookups.Count++
		if x.Found {
			m.Lookups.Found++
		}
		for _, s := range x.Steps {
			if s.Run != "table" {
				if s.Filter == "maybe" {
					m.Lookups.MemtableSearches++
				}
				if s.Found {
					m.Lookups.MemtableHits++
				}
				continue
			}
			l := &m.Levels[s.Level]
			l.Reads++
			switch {
			case s.Filter == "absent":
				l.FilterNegatives++
			case s.Filter == "maybe" && s.Found:
				l.FilterTruePositives++
			case s.Filter == "maybe":
				l.FilterFalsePositives++
			}
			if s.IndexRead {
				l.IndexReads++
			}
			if s.BlockFromCache {
				l.BlocksFromCache++
			}
			if s.BlockFromDisk {
				l.BlocksFromDisk++
			}
			l.BytesFromDisk += s.BytesRead
		}
	}
	for i := range m.Levels {
		l := &m.Levels[i]
		l.FilterChecks = l.FilterNegatives + l.FilterTruePositives + l.FilterFalsePositives
	}
	return m
}

func TestGetsCountWhatExplainReports(t *testing.T) {
	race.SkipInShort(t)
	for name, change := range map[string]func(o *db.Options){
		"blocks in the cache":  func(o *db.Options) {},
		"no cache":             func(o *db.Options) { o.Cache.Size = -1 },
		"many false positives": func(o *db.Options) { o.Filters.Policy = filter.NewCacheLineBloomPolicy(2) },
		"LevelDB's filters":    func(o *db.Options) { o.Filters.Policy = filter.NewBloomPolicy(4) },
		"no filters":           func(o *db.Options) { o.Filters.Policy = filter.None },
	} {
		t.Run(name, func(t *testing.T) {
			o := storetest.Options(vfs.NewMem())
			o.Cache.Size = 64 << 20
			change(o)
			d := storetest.ManyTables(t, o, 6) // more tables than the path counters distinguish
			for i := 0; i < 4000; i += 31 {
				require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
			}
			explained(t, d, 5000) // fills the cache
			want := explained(t, d, 5000)
			for i := range 5000 {
				if _, err := d.Get(fixture.Key(i)); err != nil {
					require.Equal(t, db.ErrNotFound, err)
				}
			}
			got := d.Metrics()
			require.Equal(t, want.Lookups.Count, got.Lookups.Count)
			require.Equal(t, want.Lookups.Found, got.Lookups.Found)
			require.Equal(t, want.Lookups.MemtableSearches, got.Lookups.MemtableSearches)
			require.Equal(t, want.Lookups.MemtableHits, got.Lookups.MemtableHits)
			levels := 0
			for i := range want.Levels {
				w, g := want.Levels[i], got.Levels[i]
				w.Tables, w.Bytes = g.Tables, g.Bytes
				require.Equal(t, w, g, "level %d", i)
				if w.Reads > 0 {
					levels++
				}
			}
			require.GreaterOrEqual(t, levels, 2, "the test needs a level below level 0")
		})
	}
}

// A Get that fails is counted, and so are the filters that denied its key before.
func TestFailedGetsAreCounted(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	d := storetest.ManyTables(t, o, 3)
	require.NoError(t, d.Close())
	tables := fixture.Names(t, mem, base.FileTable)
	for _, name := range tables {
		path := filepath.Join("db", name)
		fixture.ChangeFile(t, mem, path, func(data []byte) { data[40] ^= 1 })
	}
	o = storetest.Options(mem)
	o.Compaction.L0Trigger = 100
	d = storetest.Open(t, o)
	failed := 0
	for i := range 4000 {
		before := d.Metrics()
		_, err := d.Get(fixture.Key(i))
		after := d.Metrics()
		require.Equal(t, before.Lookups.Count+1, after.Lookups.Count)
		if err == nil || err == db.ErrNotFound {
			continue
		}
		require.ErrorIs(t, err, db.ErrCorruption)
		require.Equal(t, before.Lookups.Found, after.Lookups.Found)
		failed++
		if after.Total().FilterNegatives > before.Total().FilterNegatives {
			return
		}
	}
	require.Fail(t, "no Get failed after a filter had denied its key", "%d failed", failed)
}

func TestConcurrentLookupsLoseNoCount(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Cache.Size = 64 << 20
	d := storetest.ManyTables(t, o, 3)
	explained(t, d, 1000)
	want := explained(t, d, 1000)
	const readers = 8
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for i := range 1000 {
				_, _ = d.GetTo(nil, fixture.Key(i))
			}
		})
	}
	wg.Wait()
	got := d.Metrics()
	require.Equal(t, readers*want.Lookups.Count, got.Lookups.Count)
	require.Equal(t, readers*want.Lookups.Found, got.Lookups.Found)
	w, g := want.Total(), got.Total()
	require.Equal(t, readers*w.FilterNegatives, g.FilterNegatives)
	require.Equal(t, readers*w.FilterTruePositives, g.FilterTruePositives)
	require.Equal(t, readers*w.FilterFalsePositives, g.FilterFalsePositives)
	require.Equal(t, readers*w.BlocksFromCache, g.BlocksFromCache)
}

func TestMetricsSayWhichFiltersTablesHave(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	bloom := filter.NewBloomPolicy(10)
	storetest.FillUnder(t, o, bloom, 0, 100)
	storetest.FillUnder(t, o, filter.None, 100, 200)
	o.Tables.SeparateValues = 1
	storetest.FillUnder(t, o, fixture.Renamed{As: "test.Mine"}, 200, 300)
	o.Filters.Policy = bloom
	d := storetest.Open(t, o)
	require.Zero(t, d.Metrics().Tables.MemoryNeeded, "nothing is known before a table is open")
	for i := range 300 {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
	m := d.Metrics().Tables
	require.Equal(t, 4, m.Open)
	require.Equal(t, map[string]int{bloom.Name(): 1}, m.FilterPolicies)
	require.Equal(t, map[string]int{"test.Mine": 1}, m.UnknownFilters)
	require.Equal(t, []int{1, 1, 0, 0}, []int{m.WithoutFilter, m.WithUnknownFilter, m.WithDamagedFilter, m.WithFallbackFilter})
	require.Equal(t, 1, m.ValueTables)
	require.Positive(t, m.ValueBytes)
	require.Positive(t, m.MemoryNeeded)
}
