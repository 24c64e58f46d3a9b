package db_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"testing"

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

// Tombstones that a snapshot needs stay, and are not compacted repeatedly. Once the snapshot is
// closed, they are removed with the entries that they hide.
func TestTombstonesThatASnapshotNeedsAreLeftAlone(t *testing.T) {
	const n = 3000
	o := testOptions(vfs.NewMem())
	var compactions atomic.Int64
	o.EventListener = &db.EventListener{CompactionEnd: func(db.CompactionInfo) { compactions.Add(1) }}
	d := openTest(t, o)
	fill(t, d, 0, n)
	settleClean(t, d)
	before := tableBytes(t, d)
	s := d.NewSnapshot()
	for i := range n {
		require.NoError(t, d.Delete(testKey(i), db.NoSync))
	}
	settleClean(t, d) // ends only when nothing is due
	require.GreaterOrEqual(t, tableBytes(t, d), before, "the snapshot shows all keys")
	for i := range 20 {
		got, err := s.Get(testKey(i * n / 20))
		require.NoError(t, err)
		require.Equal(t, string(testValue(i*n/20)), string(got))
	}
	count := compactions.Load()
	for range 5 {
		d.Scheduler().Schedule()
		settleClean(t, d)
	}
	require.Equal(t, count, compactions.Load(), "useless compactions")

	require.NoError(t, s.Close())
	settleClean(t, d)
	require.Less(t, float64(tableBytes(t, d)), 0.02*float64(before))
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

func TestCompactOfADeletedRangeReturnsItsSpace(t *testing.T) {
	const n = 4000
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, n)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	settleClean(t, d)
	before := tableBytes(t, d)
	for i := n / 4; i < n/2; i++ {
		require.NoError(t, d.Delete(testKey(i), db.NoSync))
	}
	it, err := d.NewIterator(nil) // keeps the compacted files
	require.NoError(t, err)
	require.NoError(t, d.Compact(t.Context(), testKey(n/4), testKey(n/2)))
	require.NoError(t, it.Close())
	eventually(t, func() bool {
		return d.Obsolete().Count() == 0 && tableBytes(t, d) == int64(d.Metrics().Total().Bytes)
	})
	require.Less(t, float64(tableBytes(t, d)), 0.8*float64(before))
}
