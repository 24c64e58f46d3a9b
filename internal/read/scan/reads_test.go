package scan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func TestTablesAndBlocksOutsideTheBoundsAreNotRead(t *testing.T) {
	const n = 3000
	o := storetest.Options(vfs.NewMem())
	d := storetest.MustOpen(t, o)
	storetest.Fill(t, d, 0, n)
	require.NoError(t, d.Compact(t.Context(), nil, nil)) // one level
	tables := d.Metrics().Levels[db.NumLevels-1].Tables
	require.Greater(t, tables, 10)
	files, err := d.Tables()
	require.NoError(t, err)
	require.NoError(t, d.Close())
	cases := []struct {
		name         string
		lower, upper []byte
		tables       int // that may be opened
		keys         int // at least; -1 means none
		blocks       int // of data that may be read
	}{
		{"ten keys within a table", fixture.Key(1000), fixture.Key(1010), 1, 10, 5},
		{"up to the first key of a table, which is excluded", files[3].Smallest, files[4].Smallest, 1, 10, 100},
		{"from the last key of a table", files[3].Largest, files[4].Largest, 2, 10, 100},
		{"nothing between two keys", append(fixture.Key(1000), 0), fixture.Key(1001), 1, -1, 2},
		{"after all keys", []byte("z"), nil, 0, -1, 0},
		{"before all keys", nil, []byte("a"), 0, -1, 0},
		{"empty", []byte("m"), []byte("a"), 0, -1, 0},
	}
	for _, c := range cases {
		for _, backward := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, backward=%t", c.name, backward), func(t *testing.T) {
				d, seen := storetest.OpenCounting(t, o)
				it := storetest.Iter(t, d, &db.IterOptions{LowerBound: c.lower, UpperBound: c.upper})
				opened, _ := seen.Take()
				require.Zero(t, opened, "a new iterator opens no table")
				keys := storetest.Walk(t, it, backward)
				if c.keys < 0 {
					require.Empty(t, keys)
				} else {
					require.GreaterOrEqual(t, len(keys), c.keys)
				}
				require.NoError(t, it.Close())
				opened, reads := seen.Take()
				require.LessOrEqual(t, opened, c.tables)
				const toOpen = 4 // footer, metaindex, filter, index
				require.LessOrEqual(t, reads, toOpen*c.tables+c.blocks)
			})
		}
	}
}

// A walk over n tombstones reads each block once, in either direction and whatever movement leads
// there, so its cost is linear in n.
func TestTombstonesAreSkippedInLinearReads(t *testing.T) {
	const n, live = 100_000, 100
	key := func(i int) []byte { return fmt.Appendf(nil, "key%09d", i) }
	o := &db.Options{
		FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 1 << 20}, Cache: db.CacheOptions{Size: 1},
		Compaction: db.CompactionOptions{L0Trigger: 100},
	}
	d := storetest.MustOpen(t, o)
	for i := range n + live {
		require.NoError(t, d.Put(key(i), []byte("value"), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	snapshot := d.NewSnapshot() // otherwise compactions would drop the values and tombstones
	for i := range n {
		require.NoError(t, d.Delete(key(i), db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, snapshot.Close())
	require.NoError(t, d.Close())
	d, seen := storetest.OpenCounting(t, o)
	var bytes uint64
	for _, l := range d.Metrics().Levels {
		bytes += l.Bytes
	}
	blocks := int(bytes) / 1000 // blocks have 4 KiB before Snappy compresses them
	require.Less(t, blocks, 3000)

	it := storetest.Iter(t, d, nil)
	defer func() { require.NoError(t, it.Close()) }()
	for name, move := range map[string]func() bool{
		"First":  it.First,
		"SeekGE": func() bool { return it.SeekGE(key(0)) },
		"Next":   func() bool { return it.SeekGE(key(n)) && !it.Prev() && it.First() },
		"SeekLT": func() bool { return !it.SeekLT(key(n)) && it.First() },
	} {
		t.Run(name, func(t *testing.T) {
			seen.Take()
			require.True(t, move())
			require.Equal(t, string(key(n)), string(it.Key()))
			_, reads := seen.Take()
			require.LessOrEqual(t, reads, 3*blocks)
		})
	}
}

func TestOnlyLongWalksReadAhead(t *testing.T) {
	const n = 20_000
	o := storetest.Options(vfs.NewMem())
	o.Tables.BlockSize, o.Tables.Size, o.Tables.Compression = 4<<10, 8<<20, db.NoCompression
	o.Cache.Size = 64 << 10
	storetest.Compacted(t, o, n)
	d, seen := storetest.OpenCounting(t, o)
	blocks := int(d.Metrics().Levels[db.NumLevels-1].Bytes) / (4 << 10)
	for _, backward := range []bool{false, true} {
		t.Run(fmt.Sprintf("backward=%t", backward), func(t *testing.T) {
			it := storetest.Iter(t, d, nil)
			require.Len(t, storetest.Walk(t, it, backward), n)
			_, reads := seen.Take()
			require.Less(t, reads, blocks/10)
			require.NoError(t, it.Close())
		})
	}
	t.Run("seeks with ten steps", func(t *testing.T) {
		it := storetest.Iter(t, d, nil)
		require.Len(t, storetest.Walk(t, it, false), n, "a long walk does not affect later seeks")
		for i := range 100 {
			i = i * 7919 % (n - 11)
			seen.Take()
			require.True(t, it.SeekGE(fixture.Key(i)))
			for j := range 10 {
				require.True(t, it.Next())
				require.Equal(t, string(fixture.Key(i+j+1)), string(it.Key()))
			}
			_, reads := seen.Take()
			require.LessOrEqual(t, reads, 2)
		}
		require.NoError(t, it.Close())
	})
}

// A walk in order leaves the contents of a full cache alone and fills a cache with room.
func TestALongWalkLeavesAFullCacheAlone(t *testing.T) {
	const n = 5000 // some 600 KB
	o := storetest.Options(vfs.NewMem())
	o.Tables.Compression = db.NoCompression
	for _, c := range []struct {
		name string
		size int64
		full bool
	}{{"full", 100 << 10, true}, {"with room", 8 << 20, false}} {
		t.Run(c.name, func(t *testing.T) {
			o.FS, o.Cache.Size = vfs.NewMem(), c.size
			storetest.Compacted(t, o, n)
			d, seen := storetest.OpenCounting(t, o)
			hot := func() (reads int) {
				seen.Take()
				for range 3 {
					for i := range 200 {
						storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
					}
				}
				_, reads = seen.Take()
				return reads
			}
			hot()
			it := storetest.Iter(t, d, nil)
			require.Len(t, storetest.Walk(t, it, false), n)
			require.Zero(t, hot())
			require.Len(t, storetest.Walk(t, it, true), n)
			_, reads := seen.Take()
			require.Equal(t, c.full, reads > 0)
			require.NoError(t, it.Close())
		})
	}
}

// A walk over more data than the cache could hold leaves little there. A walk between bounds that fit stays whole.
func TestAWalkThatDoesNotFitFillsLittleOfTheCache(t *testing.T) {
	const n, size = 5000, 1 << 20 // some 600 KB
	o := storetest.Options(vfs.NewMem())
	o.Tables.Compression = db.NoCompression
	d := storetest.MustOpen(t, o)
	storetest.Fill(t, d, 0, n)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Greater(t, d.Metrics().Total().Bytes, uint64(size/2))
	require.NoError(t, d.Close())
	o.Cache.Size = size
	for _, backward := range []bool{false, true} {
		t.Run(fmt.Sprintf("backward=%t", backward), func(t *testing.T) {
			d, seen := storetest.OpenCounting(t, o)
			it := storetest.Iter(t, d, nil)
			require.Len(t, storetest.Walk(t, it, backward), n)
			require.NoError(t, it.Close())
			require.Greater(t, d.Metrics().Cache.Bytes, int64(size/tables.KeptShare))
			require.Less(t, d.Metrics().Cache.Bytes, int64(size/tables.KeptShare*3/2))

			it = storetest.Iter(t, d, &db.IterOptions{LowerBound: fixture.Key(n / 4), UpperBound: fixture.Key(n * 3 / 4)})
			require.Len(t, storetest.Walk(t, it, backward), n/2)
			_, reads := seen.Take()
			require.Positive(t, reads)
			require.Len(t, storetest.Walk(t, it, backward), n/2)
			_, reads = seen.Take()
			require.Zero(t, reads, "the cache has all of it")
			require.NoError(t, it.Close())
		})
	}
}

// The bug: a seek that ended before another key than its target moved all runs again at the next seek, even to a key
// between that target and this key, because the lane that began there was taken for a step.
func TestSeeksBeforeTheCurrentKeyReadNothing(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	d := storetest.MustOpen(t, o)
	for i := range 20 { // each key has a block
		require.NoError(t, d.Put(fixture.Key(20*i), make([]byte, 2*o.Tables.BlockSize), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, d.Close())
	o.Cache.Size = -1
	d, seen := storetest.OpenCounting(t, o)
	it := storetest.Iter(t, d, nil)
	for i := range byte(10) {
		require.True(t, it.SeekGE(append(fixture.Key(200), i)))
		require.Equal(t, fixture.Key(220), it.Key())
		_, reads := seen.Take()
		require.Equal(t, i == 0, reads > 0, "seek %d", i)
	}
	require.NoError(t, it.Close())
}
