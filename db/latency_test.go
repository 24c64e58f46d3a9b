package db

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// The times that operations of a slowFS take.
const (
	slowSync  = 8 * time.Millisecond
	slowWrite = time.Millisecond
	slowRead  = 2 * time.Millisecond
)

// slowFS returns a file system whose log takes time to write and sync, and whose tables take time
// to read. In a synctest bubble these are the only times that pass.
func slowFS(fsys vfs.FS) vfs.FS {
	return wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		kind, _, _ := base.ParseFileName(filepath.Base(op.Name))
		switch {
		case op.Kind == wrap.OpSync && kind == base.FileLog:
			time.Sleep(slowSync)
		case op.Kind == wrap.OpWrite && kind == base.FileLog:
			time.Sleep(slowWrite)
		case op.Kind == wrap.OpRead && kind == base.FileTable:
			time.Sleep(slowRead)
		}
		return nil
	})
}

// Each call that waits for the disk is measured, with the time that the disk needed.
func TestLatencyOfSyncedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openTest(t, testOptions(slowFS(vfs.NewMem())))
		before := d.Metrics().Latency
		require.Zero(t, before)
		require.NoError(t, d.Put(testKey(1), testValue(1), Sync))
		require.NoError(t, d.Delete(testKey(1), nil))
		var b Batch
		b.Put(testKey(2), testValue(2))
		require.NoError(t, d.Apply(&b, Sync))
		require.NoError(t, d.Put(testKey(3), make([]byte, largeWrite), Sync))
		require.NoError(t, d.Put(testKey(4), testValue(4), NoSync))
		require.NoError(t, d.SyncLog())
		m := d.Metrics()
		l := m.Latency
		require.EqualValues(t, 5, l.SyncedPut.Count)
		require.EqualValues(t, 4, l.SyncedCommit.Count, "SyncLog commits nothing")
		require.Equal(t, m.Writes.LogSyncs, l.Fsync.Count)
		require.Equal(t, time.Duration(l.Fsync.Count)*slowSync, l.Fsync.Sum)
		require.GreaterOrEqual(t, l.SyncedPut.Sum, 5*slowSync+4*slowWrite)
		require.GreaterOrEqual(t, l.SyncedCommit.Sum, 4*(slowSync+slowWrite))
		require.LessOrEqual(t, l.SyncedCommit.Sum, l.SyncedPut.Sum)
		require.GreaterOrEqual(t, l.SyncedPut.Quantile(0), slowSync)
		require.Zero(t, l.Get)
		require.NoError(t, d.Close())
		require.NotZero(t, d.Metrics().Latency.Fsync.Count, "the last figures can be read after Close")
	})
}

// One unsynced write in LatencySample is measured, alone or in a batch.
func TestLatencyOfUnsyncedWrites(t *testing.T) {
	const n = 10 * LatencySample
	for name, put := range map[string]func(*DB, int) error{
		"Put": func(d *DB, i int) error { return d.Put(testKey(i), testValue(i), NoSync) },
		"Apply": func(d *DB, i int) error {
			var b Batch
			b.Put(testKey(i), testValue(i))
			return d.Apply(&b, NoSync)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := testOptions(slowFS(vfs.NewMem()))
				o.Memtables.Size = 1 << 20
				d := openTest(t, o)
				for i := range n {
					require.NoError(t, put(d, i))
				}
				l := d.Metrics().Latency
				require.InDelta(t, n/LatencySample, l.Put.Count, 2)
				require.Equal(t, l.Put.Count, l.Commit.Count)
				require.GreaterOrEqual(t, l.Commit.Sum, time.Duration(l.Commit.Count)*slowWrite)
				require.Zero(t, l.SyncedPut)
				require.NoError(t, d.Close())
			})
		})
	}
}

// One lookup in LatencySample is measured, wherever its answer comes from.
func TestLatencyOfLookups(t *testing.T) {
	const n = 20 * LatencySample
	for _, c := range []struct {
		name     string
		inTables bool
		get      func(*DB, int) error
		reads    time.Duration
	}{
		{"Get from the memtable", false, func(d *DB, i int) error { _, err := d.Get(testKey(i)); return err }, 0},
		{"Get from tables", true, func(d *DB, i int) error { _, err := d.Get(testKey(i)); return err }, 1},
		{"GetTo", true, func(d *DB, i int) error { _, err := d.GetTo(nil, testKey(i)); return err }, 1},
		{"Has", true, func(d *DB, i int) error { _, err := d.Has(testKey(i)); return err }, 1},
		{"Snapshot", true, func(d *DB, i int) error {
			s := d.NewSnapshot()
			_, err := s.Get(testKey(i))
			return errors.Join(err, s.Close())
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := testOptions(slowFS(vfs.NewMem()))
				o.Cache.Size = -1 // each lookup reads one block
				o.Memtables.Size = 1 << 20
				d := openTest(t, o)
				fill(t, d, 0, 100)
				if c.inTables {
					settle(t, d)
					require.NoError(t, c.get(d, 0)) // opens the table
				}
				for i := range n {
					require.NoError(t, c.get(d, i%100))
				}
				l := d.Metrics().Latency.Get
				require.InDelta(t, n/LatencySample, l.Count, 2)
				require.Equal(t, time.Duration(l.Count)*c.reads*slowRead, l.Sum)
				require.NoError(t, d.Close())
			})
		})
	}
}

// Absent keys are measured like present ones.
func TestLatencyOfAbsentKeys(t *testing.T) {
	const n = 20 * LatencySample
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 100)
	settle(t, d)
	for i := range n {
		_, err := d.Get(testKey(1000 + i))
		require.Equal(t, ErrNotFound, err)
	}
	require.InDelta(t, n/LatencySample, d.Metrics().Latency.Get.Count, 2)
}
