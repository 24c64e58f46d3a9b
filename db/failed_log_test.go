package db_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: after a failed sync of the log, Flush was refused, so what only the memory had could not be saved.
func TestFlushSavesWhatAFailedLogLacksAndWritesGoOn(t *testing.T) {
	for name, call := range map[string]func(d *db.DB) error{
		"Flush":      (*db.DB).Flush,
		"Compact":    func(d *db.DB) error { return d.Compact(t.Context(), nil, nil) },
		"Checkpoint": func(d *db.DB) error { _, err := d.Checkpoint(t.Context(), "copy", nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			d, failing, _ := failingSyncs(t, mem, syscall.EIO)
			require.NoError(t, d.Put(testKey(1), testValue(1), db.NoSync))
			failing.Store(true)
			require.ErrorIs(t, d.Put(testKey(2), testValue(2), db.Sync), syscall.EIO)
			failing.Store(false)
			require.ErrorContains(t, d.Put(testKey(3), testValue(3), db.Sync), "Flush writes")
			require.ErrorIs(t, d.Metrics().BackgroundError, syscall.EIO)
			if name == "Checkpoint" { // a reader does not decide that writes go on
				require.ErrorIs(t, call(d), db.ErrReadOnly)
				call = (*db.DB).Flush
			}
			require.NoError(t, call(d))
			require.NoError(t, d.Metrics().BackgroundError)
			require.NoError(t, d.Put(testKey(4), testValue(4), db.Sync))
			after := openTest(t, testOptions(mem.Crash()))
			requireValue(t, after, testKey(1), testValue(1))
			requireValue(t, after, testKey(4), testValue(4))
			for _, refused := range []int{2, 3} {
				_, err := after.Get(testKey(refused))
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
			d, failing, _ := failingSyncs(t, mem, syscall.EIO)
			for i := range 100 { // several memtables
				require.NoError(t, d.Put(testKey(i), testValue(i), db.NoSync))
			}
			failing.Store(true)
			if c.early {
				require.ErrorIs(t, d.SyncLog(), syscall.EIO)
			}
			require.NoError(t, c.end(d))
			after := openTest(t, testOptions(mem.Crash()))
			require.True(t, after.OpenReport().ClosedCleanly)
			require.Empty(t, after.OpenReport().Losses)
			for i := range 100 {
				requireValue(t, after, testKey(i), testValue(i))
			}
			if c.name == "SetReadOnly" {
				requireValue(t, d, testKey(50), testValue(50))
				require.NoError(t, d.Close())
			}
		})
	}
}

// The bug: if a log had lost acknowledged writes, Close did not say so, and the next opening showed nothing missing.
func TestALossIsReportedByCloseAndByTheNextOpening(t *testing.T) {
	var fail atomic.Bool
	mem := vfs.NewMem()
	d, err := db.Open("db", testOptions(wrap.NewFaulty(fixture.PlainLogs(mem), wrap.FailIf(syscall.EIO, func(op wrap.Op) bool {
		return fail.Load() && (op.Kind == wrap.OpWrite && isLog(op.Name) || op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".ldb"))
	}))))
	require.NoError(t, err)
	require.NoError(t, d.Put(testKey(0), testValue(0), db.Sync))
	fail.Store(true)
	var b db.Batch
	for i := range 4 {
		b.Put(testKey(1+i), testValue(1+i))
	}
	require.NoError(t, d.Apply(&b, db.Buffered))
	err = d.Close()
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "acknowledged writes may be lost, of the operations 1 to 5")
	fail.Store(false)
	for _, readOnly := range []bool{true, false} {
		o := testOptions(mem)
		o.ReadOnly = readOnly
		d = mustOpen(t, o)
		require.Equal(t, []string{"operations 2 to 5 are lost: the log failed, and Close could not write them to tables"}, d.OpenReport().Losses)
		require.False(t, d.OpenReport().ClosedCleanly)
		requireValue(t, d, testKey(0), testValue(0))
		require.NoError(t, d.Close())
	}
	d = openTest(t, testOptions(mem))
	require.Empty(t, d.OpenReport().Losses, "it is reported once")
}
