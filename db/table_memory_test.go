package db_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/vfs"
)

const memoryKeys = 20_000

// manyTables returns the options of a database of more than a hundred small tables.
func manyTables(t *testing.T) *db.Options {
	o := testOptions(vfs.NewMem())
	o.Tables.Size = 4 << 10
	d := mustOpen(t, o)
	fill(t, d, 0, memoryKeys)
	settle(t, d)
	require.NoError(t, d.Close())
	return o
}

// readTables looks up keys with several goroutines, and calls check now and then. The short form has a quarter of the
// keys of each table.
func readTables(t *testing.T, d *db.DB, check func()) {
	var wg sync.WaitGroup
	keys := memoryKeys
	if testing.Short() {
		keys /= 4
	}
	for g := range 4 {
		wg.Go(func() {
			for i := range keys {
				if _, err := d.Get(testKey((i*7919 + g*3001) % memoryKeys)); err != nil {
					t.Error(err)
					return
				}
				if i%500 == 0 {
					check()
				}
			}
		})
	}
	wg.Wait()
}

// The memory of filters and indexes stays within Options.Cache.Memory while several goroutines read, except for the
// tables that they are just opening. A smaller bound is in force when SetOptions returns, and a larger one lets tables
// stay open.
func TestTheMemoryOfTablesIsBounded(t *testing.T) {
	o := manyTables(t)
	o.Cache = db.CacheOptions{Memory: 64 << 20}
	d := openTest(t, o)
	readTables(t, d, func() {})
	all := d.Metrics().Tables
	require.Greater(t, all.Open, 100)
	require.Zero(t, all.ClosedForMemory)
	require.InEpsilon(t, all.FilterBytes+all.IndexBytes, all.MemoryBytes, 0.001)
	require.InEpsilon(t, all.MemoryNeeded, all.MemoryBytes, 0.05)
	change := func(c db.CacheOptions) *db.Metrics {
		o := d.Options()
		o.Cache = c
		require.NoError(t, d.SetOptions(&o))
		return d.Metrics()
	}

	memory := max(all.MemoryNeeded/3, db.MinMemory)
	m := change(db.CacheOptions{Memory: memory})
	require.LessOrEqual(t, m.Tables.MemoryBytes, m.Tables.MemoryLimit)
	oneTable := all.MemoryBytes / int64(all.Open)
	readTables(t, d, func() {
		m := d.Metrics()
		if over := m.Tables.MemoryBytes - m.Tables.MemoryLimit; over > 4*3*oneTable {
			t.Errorf("%d bytes are used; want at most %d and 4 tables", m.Tables.MemoryBytes, m.Tables.MemoryLimit)
		}
	})
	m = d.Metrics()
	require.Equal(t, memory, m.Cache.Memory)
	require.Equal(t, memory-memory/db.BlockShare, m.Tables.MemoryLimit)
	require.LessOrEqual(t, m.Tables.MemoryBytes, m.Tables.MemoryLimit)
	require.LessOrEqual(t, m.Tables.MemoryBytes+m.Cache.Bytes, m.Cache.Memory)
	require.Greater(t, m.Tables.ClosedForMemory, uint64(100))
	require.Greater(t, m.Tables.Open, tables.LeastOpen)
	require.InEpsilon(t, all.MemoryNeeded, m.Tables.MemoryNeeded, 0.1)

	change(db.CacheOptions{})
	readTables(t, d, func() {})
	require.Equal(t, all.Open, d.Metrics().Tables.Open)

	// Blocks alone do not use more than the bound either, and a Size that means no limit is none.
	m = change(db.CacheOptions{Size: 64 << 20, Memory: 256 << 10})
	require.EqualValues(t, 256<<10, m.Cache.Capacity)
	readTables(t, d, func() {})
	m = d.Metrics()
	require.LessOrEqual(t, m.Cache.Bytes+m.Tables.MemoryBytes, int64(256<<10))
	require.NoError(t, (&db.Options{Cache: db.CacheOptions{Size: math.MaxInt64}}).Validate())
}

// Tables that iterators hold stay open for other readers, since closing them would free nothing. They are closed when
// the last iterator is.
func TestTablesThatIteratorsHoldStayOpen(t *testing.T) {
	const places = 40
	o := manyTables(t)
	o.Cache = db.CacheOptions{Memory: db.MinMemory}
	d := openTest(t, o)
	var iterators []*db.Iterator
	for i := range 300 {
		it, err := d.NewIterator(nil)
		require.NoError(t, err)
		require.True(t, it.SeekGE(testKey(i%places*memoryKeys/places)))
		iterators = append(iterators, it)
	}
	m := d.Metrics().Tables
	require.Greater(t, m.MemoryBytes, m.MemoryLimit)
	require.Equal(t, uint64(m.MemoryBytes), m.FilterBytes+m.IndexBytes, "none is open for iterators only")
	require.GreaterOrEqual(t, m.Open, places)
	require.LessOrEqual(t, m.Open, 3*places+tables.LeastOpen)
	require.LessOrEqual(t, m.Openings, uint64(4*places))
	for i := range 100 { // a table is not closed before the reader that opened it has finished
		_, err := d.Get(testKey((i*7919 + 13) % memoryKeys))
		require.NoError(t, err)
	}
	for _, it := range iterators {
		require.True(t, it.Next())
		require.NoError(t, it.Close())
	}
	m = d.Metrics().Tables
	require.LessOrEqual(t, m.MemoryBytes, m.MemoryLimit)
	require.Equal(t, uint64(m.MemoryBytes), m.FilterBytes+m.IndexBytes)
}

// Blocks have what filters and indexes leave, and a part of their own.
func TestBlocksKeepAPartOfTheMemory(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		o                   db.CacheOptions
		size, tables        int64
		beside, mostCharged int64
	}{
		"both set":              {db.CacheOptions{Size: 32 * mb, Memory: 128 * mb}, 32 * mb, 112 * mb, 96 * mb, 16 * mb},
		"a small block cache":   {db.CacheOptions{Size: 8 * mb, Memory: 128 * mb}, 8 * mb, 120 * mb, 120 * mb, 0},
		"only the memory":       {db.CacheOptions{Memory: 128 * mb}, 128 * mb, 112 * mb, 0, 112 * mb},
		"no block cache":        {db.CacheOptions{Size: -1, Memory: 128 * mb}, -1, 128 * mb, 128 * mb, 0},
		"more blocks than all":  {db.CacheOptions{Size: 256 * mb, Memory: 64 * mb}, 64 * mb, 56 * mb, 0, 56 * mb},
		"charged by the caller": {db.CacheOptions{Size: 32 * mb, Memory: 128 * mb, ChargeTables: true}, 32 * mb, 112 * mb, 0, -1},
	} {
		full := (&db.Options{Cache: c.o}).WithDefaults()
		beside, most := full.Cache.BesideBlocks()
		require.Equal(t, []int64{c.size, c.tables, c.beside, c.mostCharged},
			[]int64{full.Cache.Size, full.Cache.TableMemory(), beside, most}, name)
	}
	full := (&db.Options{}).WithDefaults()
	beside, most := full.Cache.BesideBlocks()
	require.GreaterOrEqual(t, beside, int64(128*mb), "by default tables use no memory of blocks")
	require.Equal(t, full.Cache.Memory-full.Cache.Size, beside)
	require.LessOrEqual(t, most, full.Cache.Size)
}

// Several databases share one bound. One that opens tables closes those of the one that has most.
func TestDatabasesShareTheMemoryOfTables(t *testing.T) {
	r, err := db.NewResources(db.ResourcesOptions{MaxStores: 4, CacheSize: 256 << 10})
	require.NoError(t, err)
	var all []*db.DB
	for range 2 {
		o := manyTables(t)
		o.Cache, o.Resources = db.CacheOptions{Size: 100 << 10}, r
		all = append(all, openTest(t, o))
	}
	used := func() (sum int64) {
		for _, d := range all {
			sum += d.Metrics().Tables.MemoryBytes
		}
		return sum
	}
	for _, d := range all {
		readTables(t, d, func() {})
		require.LessOrEqual(t, used(), int64(256<<10)*7/8)
	}
	require.Positive(t, all[0].Metrics().Tables.ClosedForMemory, "the second database closed tables of the first")
	require.EqualValues(t, 256<<10, all[0].Metrics().Cache.Memory)
	before := all[1].Metrics().Tables.MemoryBytes
	require.NoError(t, all[0].Close())
	readTables(t, all[1], func() {})
	require.GreaterOrEqual(t, all[1].Metrics().Tables.MemoryBytes, before)

	_, err = db.Open("db", &db.Options{FS: vfs.NewMem(), Resources: r, Cache: db.CacheOptions{Memory: 1 << 20}})
	require.ErrorContains(t, err, "Options.Cache.Memory is set together with Options.Resources")
}
