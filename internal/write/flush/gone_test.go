package flush_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
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

// takenAway are ways in which the files of an open store are taken away, with the file that it then misses.
var takenAway = []struct {
	name, missing string
	do            func(t *testing.T, mem *vfs.Mem)
}{
	{"LOCK removed", "LOCK is missing", func(t *testing.T, mem *vfs.Mem) { require.NoError(t, mem.Remove("db/LOCK")) }},
	{"LOCK replaced", "LOCK is another file", func(t *testing.T, mem *vfs.Mem) {
		require.NoError(t, mem.Remove("db/LOCK"))
		fixture.WriteFile(t, mem, "db/LOCK", nil)
	}},
	{"MANIFEST removed", "MANIFEST-000002 is missing", func(t *testing.T, mem *vfs.Mem) {
		require.NoError(t, mem.Remove("db/MANIFEST-000002"))
	}},
	{"MANIFEST put back from a copy", "MANIFEST-000002 is another file", func(t *testing.T, mem *vfs.Mem) {
		copied := fixture.ReadFile(t, mem, "db/MANIFEST-000002")
		require.NoError(t, mem.Remove("db/MANIFEST-000002"))
		fixture.WriteFile(t, mem, "db/MANIFEST-000002", copied)
	}},
	{"CURRENT removed", "CURRENT is missing", func(t *testing.T, mem *vfs.Mem) { require.NoError(t, mem.Remove("db/CURRENT")) }},
	{"the directory moved", "LOCK is missing", func(t *testing.T, mem *vfs.Mem) { require.NoError(t, mem.Rename("db", "elsewhere")) }},
	{"the directory replaced", "LOCK is another file", func(t *testing.T, mem *vfs.Mem) {
		require.NoError(t, mem.Rename("db", "elsewhere"))
		d := storetest.MustOpen(t, storetest.Options(mem))
		require.NoError(t, d.Put(fixture.Key(9), fixture.Value(9), db.Sync))
		require.NoError(t, d.Close())
	}},
}

// The bug: a store whose files were taken away went on, and returned nil for writes that no opening found.
func TestAStoreWhoseFilesAreTakenAwayEndsItsWrites(t *testing.T) {
	for _, c := range takenAway {
		for _, how := range []string{"idle", "flush", "close"} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := vfs.NewMem()
					var events atomic.Int64
					o := storetest.Options(mem)
					o.EventListener = &db.EventListener{BackgroundError: func(error) { events.Add(1) }}
					d := storetest.MustOpen(t, o)
					require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
					c.do(t, mem)
					dir := fixture.Dir{}
					if _, err := mem.Stat("db"); err == nil {
						dir = fixture.ReadDir(t, mem, "db")
					}
					switch how {
					case "idle":
						time.Sleep(10 * time.Second) // a store looks every five
					case "flush":
						require.ErrorContains(t, d.Flush(), c.missing)
					}
					if how != "close" {
						err := d.Put(fixture.Key(2), fixture.Value(2), db.Sync)
						require.ErrorIs(t, err, db.ErrReadOnly)
						require.ErrorContains(t, err, c.missing)
						require.ErrorContains(t, d.Metrics().BackgroundError, c.missing)
						require.NotZero(t, events.Load())
						storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1))
					}
					err := d.Close()
					require.ErrorContains(t, err, c.missing)
					require.NotContains(t, err.Error(), "safe")
					for name, content := range dir {
						now := fixture.ReadFile(t, mem, filepath.Join("db", name))
						require.True(t, bytes.Equal(bytes.TrimRight(content, "\x00"), bytes.TrimRight(now, "\x00")), "%s was replaced", name)
					}
					requireOnlyTrueWords(t, mem, err)
				})
			})
		}
	}
}

// requireOnlyTrueWords requires that an opening finds the write of the store if its Close said so.
func requireOnlyTrueWords(t *testing.T, mem *vfs.Mem, closed error) {
	if strings.Contains(closed.Error(), "may be lost") || strings.Contains(closed.Error(), "another store may") {
		return
	}
	require.ErrorContains(t, closed, "all acknowledged writes are in the tables and in 0000")
	o := storetest.Options(mem)
	require.NoError(t, db.Repair("db", o))
	storetest.RequireValue(t, storetest.Open(t, o), fixture.Key(1), fixture.Value(1))
}

// The bug: the first store returned nil for writes, and for its removal of the other's files, after both had opened.
func TestTwoStoresAfterTheLOCKWasRemoved(t *testing.T) {
	mem := vfs.NewMem()
	first := storetest.MustOpen(t, storetest.Options(mem))
	require.NoError(t, first.Put(fixture.Key(1), fixture.Value(1), db.Sync))
	require.NoError(t, mem.Remove("db/LOCK"))
	second := storetest.MustOpen(t, storetest.Options(mem))
	require.NoError(t, second.Put(fixture.Key(2), fixture.Value(2), db.Sync))
	require.NoError(t, second.Flush())
	require.NoError(t, first.Put(fixture.Key(3), fixture.Value(3), db.NoSync), "nothing has looked at the files yet")
	require.ErrorContains(t, first.Close(), "acknowledged writes may be lost, of the operations 1 to 2")
	require.NoError(t, second.Close())
	d := storetest.Open(t, storetest.Options(mem))
	require.True(t, d.OpenReport().ClosedCleanly)
	storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1)) // from the log of the first
	storetest.RequireValue(t, d, fixture.Key(2), fixture.Value(2))
}

// The bug: after "rm *.log", Close said that all data was safe, and lost what was in memory.
func TestWritesWhoseLogWasRemovedAreSaved(t *testing.T) {
	for _, how := range []string{"close", "flush", "idle"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				d := storetest.MustOpen(t, storetest.Options(mem))
				require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
				for _, log := range fixture.Names(t, mem, base.FileLog) {
					require.NoError(t, mem.Remove(filepath.Join("db", log)))
				}
				if how == "idle" {
					time.Sleep(10 * time.Second)
					require.ErrorIs(t, d.Put(fixture.Key(2), fixture.Value(2), db.Sync), db.ErrReadOnly)
					require.ErrorContains(t, d.Metrics().BackgroundError, ".log is missing")
				}
				if how != "close" {
					require.NoError(t, d.Flush())
					require.NoError(t, d.Put(fixture.Key(2), fixture.Value(2), db.Sync))
					d := storetest.Open(t, storetest.Options(mem.Crash()))
					storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1))
					storetest.RequireValue(t, d, fixture.Key(2), fixture.Value(2))
				}
				require.NoError(t, d.Close())
				d = storetest.Open(t, storetest.Options(mem.Crash()))
				require.Empty(t, d.OpenReport().Losses)
				storetest.RequireValue(t, d, fixture.Key(1), fixture.Value(1))
			})
		})
	}
}

// What the store needs is as before; on exFAT and some others, a file that is not open looks like that after a while.
func TestAnotherCURRENTWithTheSameContentEndsNothing(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	fixture.WriteFile(t, mem, "db/copy", fixture.ReadFile(t, mem, "db/CURRENT"))
	require.NoError(t, mem.Rename("db/copy", "db/CURRENT"))
	require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), db.Sync))
	require.NoError(t, d.Flush())
}

// The bug: Close named the newest log, but the log of a memtable that could not be flushed has writes as well.
func TestCloseNamesAllLogsThatHaveWrites(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	require.NoError(t, mem.Remove("db/MANIFEST-000002"))
	for i := 0; d.Put(fixture.Key(i), fixture.Value(i), db.NoSync) == nil; i++ {
		continue
	}
	logs := fixture.Names(t, mem, base.FileLog)
	require.ErrorContains(t, d.Close(), logs[0]+" to 0000")
	require.Greater(t, len(fixture.Names(t, mem, base.FileLog)), 1)
}

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
