package db_test

import (
	"bytes"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// quietly is longer than tombstones wait for others, on the clock of a bubble.
const quietly = 10 * time.Second

// storeToDelete returns a store of n values of 5 KB in one level, whose memtable has room for n tombstones. reads
// counts reads of tables.
func storeToDelete(t *testing.T, n int) (d *db.DB, reads *atomic.Int64) {
	reads = new(atomic.Int64)
	return storeToDeleteIn(t, n, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpRead && filepath.Ext(op.Name) == ".ldb" {
			reads.Add(1)
		}
		return nil
	})), reads
}

// storeToDeleteIn is storeToDelete in a file system.
func storeToDeleteIn(t *testing.T, n int, fsys vfs.FS) *db.DB {
	o := testOptions(fsys)
	o.Memtables.Size, o.Tables.Size, o.Tables.Compression = 4<<20, 64<<10, db.NoCompression
	d := openTest(t, o)
	for i := range n {
		require.NoError(t, d.Put(testKey(i), bytes.Repeat(testValue(i), 50), db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Zero(t, d.Metrics().Levels[0].Tables)
	return d
}

func deleteKeys(t *testing.T, d *db.DB, from, to int) {
	for i := from; i < to; i++ {
		require.NoError(t, d.Delete(testKey(i), db.NoSync))
	}
}

// The bug: tombstones that did not fill a memtable stayed in it, and so did the values that they hide, and each First
// read all of them.
func TestDeletedValuesAreFreedOnceDeletesEnd(t *testing.T) {
	const n = 2000
	cases := map[string]func(t *testing.T, d *db.DB){
		"one by one": func(t *testing.T, d *db.DB) { deleteKeys(t, d, 0, n) },
		"in batches": func(t *testing.T, d *db.DB) {
			for i := 0; i < n; i += 100 {
				b := new(db.Batch)
				for j := range 100 {
					b.Delete(testKey(i + j))
				}
				require.NoError(t, d.Apply(b, db.NoSync))
			}
		},
	}
	for name, remove := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, reads := storeToDelete(t, n)
				flushes := d.Metrics().Flushes.Count
				remove(t, d)
				time.Sleep(quietly)
				m := d.Metrics()
				require.Equal(t, flushes+1, m.Flushes.Count)
				require.Zero(t, m.Total().Bytes)
				reads.Store(0)
				it, err := d.NewIterator(nil)
				require.NoError(t, err)
				require.False(t, it.First())
				require.NoError(t, it.Close())
				require.Zero(t, reads.Load(), "reads of tables by First")
			})
		})
	}
}

func TestValuesMayBeWrittenWhileTombstonesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		deleteKeys(t, d, 0, 2000)
		for i := range 20 {
			time.Sleep(time.Second)
			require.NoError(t, d.Put(testKey(2000), testValue(i), db.NoSync))
		}
		require.Less(t, d.Metrics().Total().Bytes, uint64(1<<10))
	})
}

// A consumer of a queue never pauses.
func TestDeletedValuesAreFreedWhileDeletesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		before := d.Metrics().Total().Bytes
		for i := range 1800 {
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, d.Delete(testKey(i), db.NoSync))
		}
		m := d.Metrics()
		require.Less(t, m.Total().Bytes, before/2, "the last tombstones may wait")
	})
}

// The store opened again does not know how long the values in its tables are.
func TestDeletedValuesAreFreedAfterOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		o := d.Options()
		require.NoError(t, d.Close())
		d = openTest(t, &o)
		deleteKeys(t, d, 0, 2000)
		time.Sleep(quietly)
		require.Zero(t, d.Metrics().Total().Bytes)
	})
}

func TestTombstonesThatFreeLittleAreNotFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		flushes := d.Metrics().Flushes.Count
		for i := range 200 {
			require.NoError(t, d.Delete(testKey(10*i), db.NoSync)) // a tenth of each table
		}
		time.Sleep(quietly)
		require.Equal(t, flushes, d.Metrics().Flushes.Count)
		for i := range 100 {
			require.NoError(t, d.Put(testKey(i), nil, db.NoSync))
		}
		deleteKeys(t, d, 0, 20)
		time.Sleep(quietly)
		require.Equal(t, flushes, d.Metrics().Flushes.Count)
	})
}

// The bug: each of these made a compaction of the whole store due, or a flush, which freed nothing.
func TestTombstonesThatHideNothingAreNotFlushed(t *testing.T) {
	for name, deleteOne := range map[string]func(t *testing.T, d *db.DB, i int){
		"of keys that were not there": func(t *testing.T, d *db.DB, i int) {
			require.NoError(t, d.Delete(append(testKey(i), 'x'), db.NoSync))
		},
		"of keys put before": func(t *testing.T, d *db.DB, i int) {
			require.NoError(t, d.Put(append(testKey(i), 'x'), nil, db.NoSync))
			require.NoError(t, d.Delete(append(testKey(i), 'x'), db.NoSync))
		},
		"of one key": func(t *testing.T, d *db.DB, _ int) { require.NoError(t, d.Delete(testKey(5), db.NoSync)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := storeToDelete(t, 2000)
				flushes := d.Metrics().Flushes.Count
				for i := range 1000 {
					deleteOne(t, d, i)
				}
				time.Sleep(quietly)
				require.Equal(t, flushes, d.Metrics().Flushes.Count)
				deleteKeys(t, d, 0, 1500)
				time.Sleep(quietly)
				require.Equal(t, flushes+1, d.Metrics().Flushes.Count)
			})
		})
	}
}

func TestTombstonesWaitForTheEndOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		flushes := d.Metrics().Flushes.Count
		resume, err := d.PauseCompactions(t.Context())
		require.NoError(t, err)
		deleteKeys(t, d, 0, 2000)
		time.Sleep(20 * quietly)
		require.Equal(t, flushes, d.Metrics().Flushes.Count)
		resume()
		time.Sleep(quietly)
		require.Zero(t, d.Metrics().Total().Bytes)
	})
}

// The bug: if the last compaction had failed a moment ago, as on a full disk, tombstones were not looked at again
// before the next one came.
func TestTombstonesWaitUntilCompactionsSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		d := storeToDeleteIn(t, 2000, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
			if full.Load() && op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".ldb" {
				return &wrap.Fault{Err: syscall.ENOSPC}
			}
			return nil
		}))
		resume, err := d.PauseCompactions(t.Context())
		require.NoError(t, err)
		for range d.Present().Compaction.L0Trigger {
			require.NoError(t, d.Put(testKey(0), nil, db.NoSync))
			require.NoError(t, d.Flush())
		}
		full.Store(true)
		resume()
		deleteKeys(t, d, 0, 2000)
		time.Sleep(quietly)
		require.ErrorIs(t, d.Metrics().BackgroundError, db.ErrNoSpace)
		full.Store(false)
		time.Sleep(quietly)
		require.Zero(t, d.Metrics().Total().Bytes)
	})
}

func TestCloseDoesNotWaitForTheEndOfDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 2000)
		deleteKeys(t, d, 0, 2000)
		start := time.Now()
		require.NoError(t, d.Close())
		require.Zero(t, time.Since(start))
	})
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

// The bugs: a memtable of newer values was flushed each minute although writes went on, to a table that waited for
// others; so did one with the tombstones of few long values.
func TestOnlyTombstonesAreFlushedWhileWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := storeToDelete(t, 500)
		write := func(from int) {
			for i := range 180 {
				require.NoError(t, d.Put(testKey(from+i), bytes.Repeat(testValue(i), 5), db.NoSync))
				time.Sleep(time.Second)
			}
		}
		before := d.Metrics()
		write(0)
		require.Equal(t, before.Flushes.Count, d.Metrics().Flushes.Count)
		for i := 200; i < 350; i++ {
			require.NoError(t, d.Delete(testKey(i), db.NoSync))
		}
		write(1000)
		require.Less(t, d.Metrics().Total().Bytes, before.Total().Bytes*7/10)
	})
}
