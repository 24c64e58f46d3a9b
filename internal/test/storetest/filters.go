package storetest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// Filters returns the report on filters.
func Filters(t testing.TB, d *db.DB, probes int) *db.FilterReport {
	t.Helper()
	r, err := d.Filters(t.Context(), probes)
	require.NoError(t, err)
	return r
}

// BudgetKey returns a random key, which is stored if n is even.
func BudgetKey(n int) []byte {
	rnd := rand.NewPCG(uint64(n), 7)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rnd.Uint64()), rnd.Uint64())
}

// BudgetOptions returns options with which few keys fill levels that grow tenfold.
func BudgetOptions(fs vfs.FS) *db.Options {
	return &db.Options{
		FS: fs, Memtables: db.MemtableOptions{Size: 8 << 10},
		Tables:     db.TableOptions{Size: 16 << 10, BlockSize: 1 << 10, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 4 << 10},
		Cache:      db.CacheOptions{MaxOpenFiles: 10000},
		Filters:    db.FilterOptions{Policy: filter.NewCacheLineBloomPolicy(10)}, // not the default, which has more bits above the last level
	}
}

// Grown returns a settled store of n keys. It settles the store after each memtable, so the levels do
// not depend on time.
func Grown(t testing.TB, o *db.Options, n int) *db.DB {
	d, err := db.Open("db", o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	for i := range n {
		require.NoError(t, d.Put(BudgetKey(2*i), []byte("value"), db.NoSync))
		if i%100 == 99 { // before the memtable is full
			Settle(t, d)
		}
	}
	Settle(t, d)
	return d
}

// Wasted makes probes lookups of absent keys. It returns the wasted reads per lookup, as counted by
// the store, and the bytes of the filters.
func Wasted(t testing.TB, d *db.DB, probes int) (reads float64, filterBytes uint64) {
	_, err := d.Tables() // also opens tables that no probe reaches
	require.NoError(t, err)
	before := d.Metrics().Total()
	for i := range probes {
		_, err := d.Get(BudgetKey(2*i + 1))
		require.ErrorIs(t, err, db.ErrNotFound)
	}
	m := d.Metrics()
	after := m.Total()
	require.Equal(t, after.Tables, m.Tables.Open)
	wastedReads := after.Reads - after.FilterNegatives - after.FilterTruePositives
	wastedReads -= before.Reads - before.FilterNegatives - before.FilterTruePositives
	return float64(wastedReads) / float64(probes), m.Tables.FilterBytes
}

// ManyTables returns a store with tables on several levels, level0 of them in level 0. Some of
// these have tombstones. Keys are testKeys below 4,000.
func ManyTables(t testing.TB, o *db.Options, level0 int) *db.DB {
	require.NoError(t, FilledLevels(t, o, 2000).Close())
	o.Compaction.L0Trigger = 100
	o.Memtables.Size = 1 << 20
	d := Open(t, o)
	for table := range level0 {
		for i := table; i < 4000; i += 13 + table {
			if i%3 == 0 {
				require.NoError(t, d.Delete(fixture.Key(i), db.NoSync))
			} else {
				require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
			}
		}
		require.NoError(t, d.Flush())
	}
	Settle(t, d)
	return d
}
