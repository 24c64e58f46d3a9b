package db

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// manyTables returns a store with tables on several levels, level0 of them in level 0. Some of
// these have tombstones. Keys are testKeys below 4,000.
func manyTables(t *testing.T, o *Options, level0 int) *DB {
	require.NoError(t, filledLevels(t, o, 2000).Close())
	o.Compaction.L0Trigger = 100
	o.Memtables.Size = 1 << 20
	d := openTest(t, o)
	for table := range level0 {
		for i := table; i < 4000; i += 13 + table {
			if i%3 == 0 {
				require.NoError(t, d.Delete(testKey(i), NoSync))
			} else {
				require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
			}
		}
		require.NoError(t, d.Flush())
	}
	settle(t, d)
	return d
}

// explained calls Explain for the first keys and returns the Metrics that the same lookups should
// cause.
func explained(t *testing.T, d *DB, keys int) *Metrics {
	m := &Metrics{}
	for i := range keys {
		x, err := d.Explain(testKey(i))
		require.NoError(t, err)
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
	skipInShortRace(t)
	for name, change := range map[string]func(o *Options){
		"blocks in the cache":  func(o *Options) {},
		"no cache":             func(o *Options) { o.Cache.Size = -1 },
		"many false positives": func(o *Options) { o.Filters.Policy = filter.NewCacheLineBloomPolicy(2) },
		"LevelDB's filters":    func(o *Options) { o.Filters.Policy = filter.NewBloomPolicy(4) },
		"no filters":           func(o *Options) { o.Filters.Policy = filter.None },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			o.Cache.Size = 64 << 20
			change(o)
			d := manyTables(t, o, 6) // more tables than the path counters distinguish
			for i := 0; i < 4000; i += 31 {
				require.NoError(t, d.Put(testKey(i), testValue(i), NoSync))
			}
			explained(t, d, 5000) // fills the cache
			want := explained(t, d, 5000)
			for i := range 5000 {
				if _, err := d.Get(testKey(i)); err != nil {
					require.Equal(t, ErrNotFound, err)
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
	o := testOptions(mem)
	d := manyTables(t, o, 3)
	require.NoError(t, d.Close())
	tables := namesOf(t, mem, base.FileTable)
	for _, name := range tables {
		path := filepath.Join("db", name)
		data := readFile(t, mem, path)
		data[40] ^= 1
		writeFile(t, mem, path, data)
	}
	o = testOptions(mem)
	o.Compaction.L0Trigger = 100
	d = openTest(t, o)
	failed := 0
	for i := range 4000 {
		before := d.Metrics()
		_, err := d.Get(testKey(i))
		after := d.Metrics()
		require.Equal(t, before.Lookups.Count+1, after.Lookups.Count)
		if err == nil || err == ErrNotFound {
			continue
		}
		require.ErrorIs(t, err, ErrCorruption)
		require.Equal(t, before.Lookups.Found, after.Lookups.Found)
		failed++
		if after.Total().FilterNegatives > before.Total().FilterNegatives {
			return
		}
	}
	require.Fail(t, "no Get failed after a filter had denied its key", "%d failed", failed)
}

func TestConcurrentLookupsLoseNoCount(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Cache.Size = 64 << 20
	d := manyTables(t, o, 3)
	explained(t, d, 1000)
	want := explained(t, d, 1000)
	const readers = 8
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for i := range 1000 {
				_, _ = d.GetTo(nil, testKey(i))
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
