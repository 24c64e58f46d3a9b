package db_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// duringDeletion returns a store like that of twentyTables, and calls meanwhile once while a
// deletion of a range writes its first tombstone.
func duringDeletion(t *testing.T, meanwhile func(d *db.DB)) *db.DB {
	t.Helper()
	h := hook{at: of(wrap.OpCreate, ".dbtmp")}
	d := twentyTables(t, h.over(vfs.NewMem()))
	h.arm(func() { meanwhile(d) })
	return d
}

// What is written while a range is deleted is deleted with it: the deletion happens at its end.
func TestWritesDuringADeletionAreDeleted(t *testing.T) {
	for name, then := range map[string]func(d *db.DB) error{
		"in the memtable": func(*db.DB) error { return nil },
		"in a table":      (*db.DB).Flush,
		"in a table of the range": func(d *db.DB) error {
			if err := d.Flush(); err != nil {
				return err
			}
			if err := d.Put(testKey(700), []byte("alone"), db.NoSync); err != nil {
				return err
			}
			return d.Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := duringDeletion(t, func(d *db.DB) {
				require.NoError(t, d.Put(testKey(50), []byte("outside"), db.NoSync))
				require.NoError(t, d.Put(testKey(150), []byte("inside"), db.NoSync))  // at the end: it has a tombstone already
				require.NoError(t, d.Put(testKey(5000), []byte("inside"), db.NoSync)) // its table is removed
				require.NoError(t, d.Put([]byte("key005000+"), []byte("inside"), db.NoSync))
				require.NoError(t, then(d))
			})
			require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
			require.NotZero(t, d.Untraced().Last())
			requireValue(t, d, testKey(50), []byte("outside"))
			requireEmpty(t, d, testKey(100), testKey(9_900))
			requireAbsent(t, d, []byte("key000150"), []byte("key005000"), []byte("key005000+"), []byte("key000700"))
			require.NoError(t, d.Put(testKey(5000), []byte("after"), db.NoSync))
			requireValue(t, d, testKey(5000), []byte("after"))
		})
	}
}

// A store that closes does not wait for the keys of a range.
func TestCloseDuringADeletion(t *testing.T) {
	var closed sync.WaitGroup
	var closing error
	d := duringDeletion(t, func(d *db.DB) {
		closed.Go(func() { closing = d.Close() })
		for !d.IsClosed() {
			runtime.Gosched()
		}
	})
	s := d.NewSnapshot()
	require.Equal(t, db.ErrClosed, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	closed.Wait()
	require.ErrorContains(t, closing, "1 snapshot open")
	require.NoError(t, s.Close())
}

// A snapshot that is taken while a range is deleted keeps its view although tables are removed. A
// transaction that began meanwhile and read the range conflicts.
func TestSnapshotsDuringADeletionKeepTheirView(t *testing.T) {
	var s *db.Snapshot
	var tx *db.Transaction
	d := duringDeletion(t, func(d *db.DB) {
		s, tx = d.NewSnapshot(), d.NewTransaction(nil)
		_, err := tx.Get(testKey(5000))
		require.NoError(t, err)
		require.NoError(t, tx.Put([]byte("written"), nil))
	})
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	require.NotZero(t, d.Untraced().Last())
	for i := 0; i < 10_000; i += 97 {
		value, err := s.Get(testKey(i))
		require.NoError(t, err)
		require.Equal(t, testValue(i), value)
	}
	require.Len(t, contentsIn(t, s), 10_000)
	require.Equal(t, db.ErrConflict, tx.Commit())
	values, err := s.MultiGet([][]byte{testKey(5000), testKey(50)})
	require.NoError(t, err)
	require.Equal(t, [][]byte{testValue(5000), testValue(50)}, values)
	require.NoError(t, s.Close())
	_, err = s.Get(testKey(5000))
	require.Equal(t, db.ErrClosed, err)
	_, err = s.NewIterator(nil)
	require.Equal(t, db.ErrClosed, err)
}

// A key of a table that stays must not come back because a newer table, which deleted or replaced it, is removed at
// once, or later if a snapshot needs it.
func TestNoOlderEntryComesBackWhenATableIsRemoved(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		o := testOptions(vfs.NewMem())
		o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 10, 12, 14
		d := openTest(t, o)
		putAll(t, d, "a", "outside", "m", "old", "n", "old")
		require.NoError(t, d.Flush()) // it has a key outside of the range
		if pinned {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
		}
		require.NoError(t, d.Delete([]byte("m"), db.NoSync))
		putAll(t, d, "n", "new")
		require.NoError(t, d.Flush()) // it has not
		s := &db.Snapshot{}
		if pinned {
			s = d.NewSnapshot()
		}
		require.NoError(t, d.DeleteRange(t.Context(), []byte("k"), []byte("p"), nil))
		require.Equal(t, pinned, d.Coordinator().Waiting())
		if pinned {
			require.NoError(t, s.Close())
			eventually(t, func() bool { return !d.Coordinator().Waiting() })
		}
		require.Equal(t, !pinned, d.Untraced().Last() > 0, "a table was removed at once")
		require.Equal(t, map[string]string{"a": "outside"}, contentsIn(t, d))
		requireAbsent(t, d, []byte("m"), []byte("n"))
	}
}

// Readers see a range whole or deleted, also the keys that are deleted in different ways: some get
// tombstones, and the tables of others are removed.
func TestReadersSeeARangeWholeOrDeleted(t *testing.T) {
	for range 3 {
		// The deletion may begin while readers have snapshots. It begins again when they have closed them.
		d := duringDeletion(t, func(d *db.DB) {
			eventually(t, func() bool { return d.Pins().Drained() == nil })
		})
		keys := [][]byte{testKey(100), testKey(5_000), testKey(9_899)}
		var readers sync.WaitGroup
		var stop atomic.Bool
		for range 3 {
			readers.Go(func() {
				for !stop.Load() {
					if err := readWhole(d, keys); err != nil {
						panic(err)
					}
				}
			})
		}
		err := d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil)
		stop.Store(true)
		readers.Wait()
		require.NoError(t, err)
		require.NotZero(t, d.Untraced().Last(), "tables were removed")
	}
}

// readWhole reads keys by a MultiGet, a snapshot and one after the other, and returns an error if some
// were there and others not.
func readWhole(d *db.DB, keys [][]byte) error {
	values, err := d.MultiGet(keys)
	if err != nil {
		return err
	}
	s := d.NewSnapshot()
	defer s.Close()
	gone := false
	for i, key := range keys {
		if (values[i] == nil) != (values[0] == nil) {
			return fmt.Errorf("MultiGet finds %d but not 0, or the reverse", i)
		}
		_, first := s.Get(keys[0])
		if _, err := s.Get(key); (err == nil) != (first == nil) {
			return fmt.Errorf("a snapshot finds %d but not 0, or the reverse: %v, %v", i, err, first)
		}
		_, err := d.Get(key)
		if gone && err == nil {
			return fmt.Errorf("%d is there after others were gone", i)
		}
		gone = gone || err != nil
	}
	return nil
}

// A table that hid an older entry when the range was read, and that is replaced by a copy before the
// end, is not removed: the older entry would come back.
func TestACopyMadeDuringADeletionStillHidesWhatItHid(t *testing.T) {
	var d *db.DB
	var deleting atomic.Bool
	copying, deletion, copied := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var first, once sync.Once
	fs := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpCreate || !deleting.Load() {
			return nil
		}
		switch kind, _, _ := base.ParseFileName(filepath.Base(op.Name)); kind {
		case base.FileTable: // the copy
			first.Do(func() {
				close(copying)
				<-deletion
			})
		case base.FileTemp: // the first tombstone
			once.Do(func() {
				close(deletion)
				copied <- <-copied
			})
		}
		return nil
	})
	o := testOptions(fs)
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 10, 12, 14
	d = openTest(t, o)
	for _, key := range []string{"a", "m", "n"} {
		require.NoError(t, d.Put([]byte(key), []byte("old"), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.UpgradeFilters(t.Context(), filter.FusePolicy{}, nil) // so that only later tables are copied below
	require.NoError(t, err)
	require.NoError(t, d.Delete([]byte("m"), db.NoSync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Put([]byte("nn"), []byte("new"), db.NoSync))
	require.NoError(t, d.Put([]byte("z"), []byte("new"), db.NoSync))
	require.NoError(t, d.Flush())
	deleting.Store(true)
	go func() {
		_, err := d.UpgradeFilters(t.Context(), filter.FusePolicy{}, nil)
		copied <- err
	}()
	<-copying
	require.NoError(t, d.DeleteRange(t.Context(), []byte("k"), []byte("p"), nil))
	require.NoError(t, <-copied)
	requireAbsent(t, d, []byte("m"), []byte("n"), []byte("nn"))
}
