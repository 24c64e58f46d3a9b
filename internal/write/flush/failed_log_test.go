package flush_test

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// failingSyncs opens a store in which each sync of a log fails while failing is set.
func failingSyncs(t *testing.T, mem *vfs.Mem) (d *db.DB, failing *atomic.Bool) {
	failing = new(atomic.Bool)
	return storetest.MustOpen(t, storetest.Options(wrap.NewFaulty(mem, wrap.FailIf(syscall.EIO, func(op wrap.Op) bool {
		return failing.Load() && op.Kind == wrap.OpSync && filepath.Ext(op.Name) == ".log"
	})))), failing
}

// The bug: after a failed sync of the log, Flush was refused, so what only the memory had could not be saved.
func TestFlushSavesWhatAFailedLogLacksAndWritesGoOn(t *testing.T) {
	for name, call := range map[string]func(d *db.DB) error{
		"Flush":      (*db.DB).Flush,
		"Compact":    func(d *db.DB) error { return d.Compact(t.Context(), nil, nil) },
		"Checkpoint": func(d *db.DB) error { _, err := d.Checkpoint(t.Context(), "copy", nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			d, failing := failingSyncs(t, mem)
			require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.NoSync))
			failing.Store(true)
			require.ErrorIs(t, d.Put(fixture.Key(2), fixture.Value(2), db.Sync), syscall.EIO)
			failing.Store(false)
			require.ErrorContains(t, d.Put(fixture.Key(3), fixture.Value(3), db.Sync), "Flush writes")
			require.ErrorIs(t, d.Metrics().BackgroundError, syscall.EIO)
			if name == "Checkpoint" { // a reader does not decide that writes go on
				require.ErrorIs(t, call(d), db.ErrReadOnly)
				call = (*db.DB).Flush
			}
			require.NoError(t, call(d))
			require.NoError(t, d.Metrics().BackgroundError)
			require.NoError(t, d.Put(fixture.Key(4), fixture.Value(4), db.Sync))
			after := storetest.Open(t, storetest.Options(mem.Crash()))
			storetest.RequireValue(t, after, fixture.Key(1), fixture.Value(1))
			storetest.RequireValue(t, after, fixture.Key(4), fixture.Value(4))
			for _, refused := range []int{2, 3} {
				_, err := after.Get(fixture.Key(refused))
				require.Equal(t, db.ErrNotFound, err, "the failed log is not replayed")
			}
			require.NoError(t, d.Close())
		})
	}
}

// The bug: Close did not save what a failed log lacks, and did not say so.
func TestCloseSavesWhatAFailedLogLacks(t *testing.T) {
	for _, c := range []struct {
		name  string
		early bool // the failure is one of a write, before Close
		end   func(d *db.DB) error
	}{{"Close", true, (*db.DB).Close}, {"the last sync", false, (*db.DB).Close}, {"SetReadOnly", true, (*db.DB).SetReadOnly}} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			d, failing := failingSyncs(t, mem)
			for i := range 100 { // several memtables
				require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
			}
			failing.Store(true)
			if c.early {
				require.ErrorIs(t, d.SyncLog(), syscall.EIO)
			}
			require.NoError(t, c.end(d))
			after := storetest.Open(t, storetest.Options(mem.Crash()))
			require.True(t, after.OpenReport().ClosedCleanly)
			require.Empty(t, after.OpenReport().Losses)
			for i := range 100 {
				storetest.RequireValue(t, after, fixture.Key(i), fixture.Value(i))
			}
			if c.name == "SetReadOnly" {
				storetest.RequireValue(t, d, fixture.Key(50), fixture.Value(50))
				require.NoError(t, d.Close())
			}
		})
	}
}

// The bug: if a log had lost acknowledged writes, Close did not say so, and the next opening showed nothing missing.
func TestALossIsReportedByCloseAndByTheNextOpening(t *testing.T) {
	var fail atomic.Bool
	mem := vfs.NewMem()
	d, err := db.Open("db", storetest.Options(wrap.NewFaulty(fixture.PlainLogs(mem), wrap.FailIf(syscall.EIO, func(op wrap.Op) bool {
		return fail.Load() && (op.Kind == wrap.OpWrite && filepath.Ext(op.Name) == ".log" || op.Kind == wrap.OpCreate && fixture.IsTable(op.Name))
	}))))
	require.NoError(t, err)
	require.NoError(t, d.Put(fixture.Key(0), fixture.Value(0), db.Sync))
	fail.Store(true)
	var b db.Batch
	for i := range 4 {
		b.Put(fixture.Key(1+i), fixture.Value(1+i))
	}
	require.NoError(t, d.Apply(&b, db.Buffered))
	err = d.Close()
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "acknowledged writes may be lost, of the operations 1 to 5")
	fail.Store(false)
	for _, readOnly := range []bool{true, false} {
		o := storetest.Options(mem)
		o.ReadOnly = readOnly
		d = storetest.MustOpen(t, o)
		require.Equal(t, []string{"operations 2 to 5 are lost: the log failed, and Close could not write them to tables"}, d.OpenReport().Losses)
		require.False(t, d.OpenReport().ClosedCleanly)
		storetest.RequireValue(t, d, fixture.Key(0), fixture.Value(0))
		require.NoError(t, d.Close())
	}
	d = storetest.Open(t, storetest.Options(mem))
	require.Empty(t, d.OpenReport().Losses, "it is reported once")
}
