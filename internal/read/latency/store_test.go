package latency_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
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
		d := storetest.Open(t, storetest.Options(slowFS(vfs.NewMem())))
		before := d.Metrics().Latency
		require.Zero(t, before)
		require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
		require.NoError(t, d.Delete(fixture.Key(1), nil))
		var b db.Batch
		b.Put(fixture.Key(2), fixture.Value(2))
		require.NoError(t, d.Apply(&b, db.Sync))
		require.NoError(t, d.Put(fixture.Key(3), make([]byte, 1<<20), db.Sync))
		require.NoError(t, d.Put(fixture.Key(4), fixture.Value(4), db.NoSync))
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
	const n = 10 * db.LatencySample
	for name, put := range map[string]func(*db.DB, int) error{
		"Put": func(d *db.DB, i int) error { return d.Put(fixture.Key(i), fixture.Value(i), db.NoSync) },
		"Apply": func(d *db.DB, i int) error {
			var b db.Batch
			b.Put(fixture.Key(i), fixture.Value(i))
			return d.Apply(&b, db.NoSync)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := storetest.Options(slowFS(vfs.NewMem()))
				o.Memtables.Size = 1 << 20
				d := storetest.Open(t, o)
				for i := range n {
					require.NoError(t, put(d, i))
				}
				l := d.Metrics().Latency
				require.InDelta(t, n/db.LatencySample, l.Put.Count, 2)
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
	const n = 20 * db.LatencySample
	for _, c := range []struct {
		name     string
		inTables bool
		get      func(*db.DB, int) error
		reads    time.Duration
	}{
		{"Get from the memtable", false, func(d *db.DB, i int) error { _, err := d.Get(fixture.Key(i)); return err }, 0},
		{"Get from tables", true, func(d *db.DB, i int) error { _, err := d.Get(fixture.Key(i)); return err }, 1},
		{"GetTo", true, func(d *db.DB, i int) error { _, err := d.GetTo(nil, fixture.Key(i)); return err }, 1},
		{"Has", true, func(d *db.DB, i int) error { _, err := d.Has(fixture.Key(i)); return err }, 1},
		{"Snapshot", true, func(d *db.DB, i int) error {
			s := d.NewSnapshot()
			_, err := s.Get(fixture.Key(i))
			return errors.Join(err, s.Close())
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := storetest.Options(slowFS(vfs.NewMem()))
				o.Cache.Size = -1 // each lookup reads one block
				o.Memtables.Size = 1 << 20
				d := storetest.Open(t, o)
				storetest.Fill(t, d, 0, 100)
				if c.inTables {
					storetest.Settle(t, d)
					require.NoError(t, c.get(d, 0)) // opens the table
				}
				for i := range n {
					require.NoError(t, c.get(d, i%100))
				}
				l := d.Metrics().Latency.Get
				require.InDelta(t, n/db.LatencySample, l.Count, 2)
				require.Equal(t, time.Duration(l.Count)*c.reads*slowRead, l.Sum)
				require.NoError(t, d.Close())
			})
		})
	}
}

// Absent keys are measured like present ones.
func TestLatencyOfAbsentKeys(t *testing.T) {
	const n = 20 * db.LatencySample
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.Fill(t, d, 0, 100)
	storetest.Settle(t, d)
	for i := range n {
		_, err := d.Get(fixture.Key(1000 + i))
		require.Equal(t, db.ErrNotFound, err)
	}
	require.InDelta(t, n/db.LatencySample, d.Metrics().Latency.Get.Count, 2)
}
