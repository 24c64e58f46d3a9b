package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/vfs"
)

// Versions of a few keys in a memtable and in up to six overlapping tables are merged in their order.
func TestMergedRunsConform(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 11))
	for runs := range 7 {
		for _, keys := range []int{1, 20, 300} {
			t.Run(fmt.Sprintf("%d tables, %d keys", runs, keys), func(t *testing.T) {
				o := testOptions(vfs.NewMem())
				o.Compaction.L0Trigger = 100
				d := openTest(t, o)
				var es []itertest.Entry
				for run := range runs + 1 {
					for range 1 + rnd.IntN(200) {
						es = append(es, putVersion(t, d, rnd, keys))
					}
					if run < runs {
						require.NoError(t, d.Flush())
					}
				}
				slices.SortFunc(es, func(a, b itertest.Entry) int { return base.CompareInternal(base.Bytewise, a.Key, b.Key) })
				itertest.Run(t, base.Bytewise, es, rnd.Uint64(), func() base.Iterator {
					return mergedRuns(t, d)
				})
			})
		}
	}
}

// mergedRuns returns an iterator over all entries of d.
func mergedRuns(t *testing.T, d *db.DB) base.Iterator {
	s := d.Finder().Ref()
	t.Cleanup(s.Version.Unref)
	it, runs := new(tables.MergingIter), new(tables.Runs)
	for _, m := range s.Memtables() {
		it.Add(m.NewIter())
	}
	runs.Add(it, d.TableCache(), s.Version, &tables.RunOptions{CacheSize: d.Present().Cache.Size, Ranges: d.RangeCounters()})
	it.Init(d.Opts().Comparer)
	it.SetStrict()
	return it
}

// putVersion writes or deletes one of the given number of keys, and returns the entry. A snapshot
// sees the entry, so no flush drops it.
func putVersion(t *testing.T, d *db.DB, rnd *rand.Rand, keys int) itertest.Entry {
	defer func() {
		s := d.NewSnapshot()
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}()
	key, seq := testKey(rnd.IntN(keys)), d.Finder().VisibleSeq.Load()+1
	if rnd.IntN(5) == 0 {
		require.NoError(t, d.Delete(key, db.NoSync))
		return itertest.Entry{Key: base.AppendInternalKey(nil, key, seq, base.KindDelete)}
	}
	value := fmt.Appendf(nil, "%d", seq)
	require.NoError(t, d.Put(key, value, db.NoSync))
	return itertest.Entry{Key: base.AppendInternalKey(nil, key, seq, base.KindSet), Value: value}
}

// A backward iterator returns the value of a key from its block. Newer versions that a snapshot
// does not see may precede it, in blocks that replace its own.
func TestValuesStayValidDuringStepsOverNewerVersions(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Cache.Size = 1
	d := openTest(t, o)
	require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
	old := d.NewSnapshot()
	for i := range 60 {
		require.NoError(t, d.Put(testKey(1), testValue(100+i), db.NoSync))
		s := d.NewSnapshot() // the version is kept
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}
	require.NoError(t, d.Put(testKey(0), testValue(0), db.NoSync))
	require.NoError(t, d.Put(testKey(2), testValue(2), db.NoSync))
	require.NoError(t, d.Flush())

	it, err := old.NewIterator(nil)
	require.NoError(t, err)
	for _, begin := range []func(*db.Iterator) bool{(*db.Iterator).Last, func(it *db.Iterator) bool { return it.SeekLT(testKey(2)) }} {
		require.True(t, begin(it))
		require.Equal(t, string(testKey(1)), string(it.Key()))
		require.Equal(t, string(testValue(1)), string(it.Value()))
		require.False(t, it.Prev())
	}
	require.NoError(t, it.Close())
	require.NoError(t, old.Close())
}
