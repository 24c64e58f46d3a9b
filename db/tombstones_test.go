package db_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

// tableBytes returns the bytes of the tables in the directory, obsolete ones included.
func tableBytes(t testing.TB, d *db.DB) (bytes int64) {
	t.Helper()
	names, err := d.Directory().FS.List(d.Directory().Path)
	require.NoError(t, err)
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileTable {
			info, err := d.Directory().FS.Stat(d.Directory().Path + "/" + name)
			if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
				continue
			}
			require.NoError(t, err)
			bytes += info.Size()
		}
	}
	return bytes
}

// settleClean settles the store and waits until unused tables are removed.
func settleClean(t testing.TB, d *db.DB) {
	t.Helper()
	settle(t, d)
	eventually(t, func() bool {
		d.Obsolete().Remove()
		return d.Obsolete().Count() == 0 && tableBytes(t, d) == int64(d.Metrics().Total().Bytes)
	})
}

func TestDeletedKeysReleaseTheirSpaceAutomatically(t *testing.T) {
	const n = 6000
	cases := []struct {
		name     string
		from, to int     // deleted
		most     float64 // fraction of the space before
	}{
		{"all keys", 0, n, 0.02},
		{"a range of a quarter", n / 4, n / 2, 0.85},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := openTest(t, testOptions(vfs.NewMem()))
			fill(t, d, 0, n)
			settleClean(t, d)
			before := tableBytes(t, d)
			for i := c.from; i < c.to; i++ {
				require.NoError(t, d.Delete(testKey(i), db.NoSync))
			}
			require.NoError(t, d.Flush())
			eventually(t, func() bool { return float64(tableBytes(t, d)) < c.most*float64(before) })
			requireRange(t, d, 0, c.from)
			requireRange(t, d, c.to, n)
		})
	}
}

// requireRange requires that an iterator at from finds all keys up to to, in order.
func requireRange(t testing.TB, d *db.DB, from, to int) {
	t.Helper()
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	ok := it.SeekGE(testKey(from))
	for i := from; i < to; i++ {
		require.True(t, ok)
		require.Equal(t, string(testKey(i)), string(it.Key()))
		ok = it.Next()
	}
}

func TestSettledOverwritesUseAtMostAQuarterMoreSpace(t *testing.T) {
	const n = 4000
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, n)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3 * n {
		i := rng.IntN(n)
		require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
	}
	settleClean(t, d)
	settled := tableBytes(t, d)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	settleClean(t, d)
	require.Less(t, float64(settled), 1.25*float64(tableBytes(t, d)))
}

// A queue whose consumer looks for its first entry is never quiet. Each First steps over the tombstones of all entries
// taken before, until these are in a table and that is compacted. The clock stands still, so nothing else flushes them.
func TestTombstonesThatHinderIteratorsAreCompacted(t *testing.T) {
	const n, taken, looks = 10_000, 5_000, 1_200 // over ten thousand entries in the first case, half of it in the second
	for name, end := range map[string]struct {
		move func(it *db.Iterator) bool
		key  func(taken int) []byte
	}{
		"first": {(*db.Iterator).First, testKey},
		"last":  {(*db.Iterator).Last, func(taken int) []byte { return testKey(n - 1 - taken) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := storeOfShortValues(t, n)
				look := func() []byte {
					it, err := d.NewIterator(nil)
					require.NoError(t, err)
					defer it.Close()
					require.True(t, end.move(it))
					return bytes.Clone(it.Key())
				}
				remove := func(i int) {
					require.NoError(t, d.Delete(end.key(i), db.NoSync))
					synctest.Wait()
				}
				for i := range taken {
					require.NoError(t, d.Delete(end.key(i), db.NoSync))
				}
				before := d.Metrics()
				look()
				remove(taken)
				remove(taken + 1)
				require.Equal(t, before.Flushes.Count, d.Metrics().Flushes.Count, "so few steps are no hindrance")
				for range looks {
					look()
				}
				remove(taken + 2) // makes a memtable and a log
				remove(taken + 3) // the flush begins
				m := d.Metrics()
				require.Equal(t, before.Flushes.Count+1, m.Flushes.Count)
				require.Zero(t, m.Levels[0].Tables)
				require.Equal(t, end.key(taken+4), look())
			})
		})
	}
}

// storeOfShortValues returns a store of n short values in one level, whose memtable has room for as many tombstones.
func storeOfShortValues(t *testing.T, n int) *db.DB {
	o := testOptions(vfs.NewMem())
	o.Memtables.Size = 64 << 20
	d := openTest(t, o)
	fill(t, d, 0, n)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	return d
}
