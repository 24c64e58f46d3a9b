package dbdir_test

import (
	"io/fs"
	"maps"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// putIn opens the database in dir with its logs in logDir, puts keys, and closes it.
func putIn(t *testing.T, fsys vfs.FS, dir, logDir string, keys ...string) {
	t.Helper()
	o := logsIn(fsys, logDir)
	d := result.Of(db.Open(dir, o))(t)
	for _, key := range keys {
		require.NoError(t, d.Put([]byte(key), []byte(dir), db.Sync))
	}
	require.NoError(t, d.Close())
}

// requireKeys opens the database in dir where it recorded its logs. It has exactly those keys.
func requireKeys(t *testing.T, fsys vfs.FS, dir string, keys ...string) {
	t.Helper()
	d := result.Of(db.Open(dir, storetest.Options(fsys)))(t)
	have := storetest.Contents(t, d)
	require.NoError(t, d.Close())
	for _, key := range keys {
		require.Contains(t, have, key)
	}
	require.Len(t, have, len(keys))
}

// copyFiles copies the files of a directory to another one, durably.
func copyFiles(t *testing.T, fsys vfs.FS, from, to string) {
	t.Helper()
	require.NoError(t, vfs.MkdirAllSynced(fsys, to))
	for name, data := range treeOf(t, fsys, from) {
		fixture.WriteFile(t, fsys, filepath.Join(to, name), []byte(data))
	}
	require.NoError(t, fsys.SyncDir(to))
}

// removeDir removes a directory of files.
func removeDir(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	names := fixture.List(t, fsys, dir)
	for _, name := range names {
		require.NoError(t, fsys.Remove(filepath.Join(dir, name)))
	}
	require.NoError(t, fsys.Remove(dir))
}

// The bug: a database that opened and closed between the check and the lock of another one lost its mark,
// and then its log. Here it does so at every operation of the other one.
func TestTwoDatabasesRaceForOneLogDirectory(t *testing.T) {
	step := uint64(1)
	if race.Sampled() {
		step = 3
	}
	race := func(at uint64, earlier ...string) (ops uint64) {
		mem := vfs.NewMem()
		if earlier != nil {
			putIn(t, mem, "second", "", earlier...)
		}
		intruded := false
		hook := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if op.Index != at {
				return nil
			}
			d, err := db.Open("db", logsIn(mem, "logs"))
			if err == nil {
				intruded = true
				require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
				require.NoError(t, d.Close())
			}
			return nil
		})
		d, err := db.Open("second", logsIn(hook, "logs"))
		if intruded {
			require.ErrorContains(t, err, "sievedb: Options.LogDir, logs, has ", "operation %d", at)
			requireKeys(t, mem, "db", "a")
		} else {
			require.NoError(t, err, "operation %d", at)
			require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
			require.NoError(t, d.Close())
			earlier = append(earlier, "b")
		}
		requireKeys(t, mem, "second", earlier...)
		return hook.Ops()
	}
	for _, earlier := range [][]string{nil, {"b1", "b2"}} {
		for at := range race(1<<40, earlier...) / step {
			race(at*step, earlier...)
		}
	}
}

// The bug: Repair made the log directory a database, and Destroy removed the logs.
func TestALogDirectoryIsNoDatabase(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a")
	before := treeOf(t, mem, "logs")
	for name, use := range map[string]func(o *db.Options) error{
		"Open":         func(o *db.Options) error { _, err := db.Open("logs", o); return err },
		"OpenFollower": func(o *db.Options) error { _, err := db.OpenFollower("logs", o); return err },
		"Repair":       func(o *db.Options) error { return db.Repair("logs", o) },
		"Destroy":      func(o *db.Options) error { return db.Destroy("logs", o) },
		"with LogDir":  func(o *db.Options) error { o.LogDir = "elsewhere"; _, err := db.Open("logs", o); return err },
		"read-only":    func(o *db.Options) error { o.ReadOnly = true; _, err := db.Open("logs", o); return err },
	} {
		require.ErrorContains(t, use(storetest.Options(mem)), "sievedb: logs has the logs of the database in db, as its file LOGS says", name)
		require.Equal(t, before, treeOf(t, mem, "logs"), name)
	}
	requireKeys(t, mem, "db", "a")
}

// The bug: without LOGDIR and LOGS, Open and Repair refused the database, whatever LogDir was.
func TestRepairWithoutMarks(t *testing.T) {
	start := oldAndNew(t)
	for name, prepare := range map[string]func(t *testing.T, mem *vfs.Mem){
		"missing": func(*testing.T, *vfs.Mem) {},
		"damaged": func(t *testing.T, mem *vfs.Mem) {
			fixture.WriteFile(t, mem, filepath.Join("db", "LOGDIR"), []byte("x"))
		},
		"logs moved by hand": func(t *testing.T, mem *vfs.Mem) {
			for _, log := range logsOf(t, start, "logs") {
				fixture.WriteFile(t, mem, filepath.Join("db", log), fixture.ReadFile(t, start, filepath.Join("logs", log)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := start.Crash()
			removeDir(t, mem, "logs")
			require.NoError(t, mem.Remove(filepath.Join("db", "LOGDIR")))
			prepare(t, mem)
			for _, logDir := range []string{"", "db", "logs"} {
				o := logsIn(mem, logDir)
				_, err := db.Open("db", o)
				require.ErrorContains(t, err, "repair the database with its own directory as Options.LogDir")
			}
			report := storetest.RepairWith(t, "db", logsIn(mem, "db"))
			require.Equal(t, "unknown", report.LogsAbandoned)
			if name == "logs moved by hand" {
				requireKeys(t, mem, "db", "old", "new")
			} else {
				requireKeys(t, mem, "db", "old")
			}
			require.NotContains(t, treeOf(t, mem, "db"), "LOGDIR")
			putIn(t, mem, "db", "logs")
		})
	}
	plain := vfs.NewMem()
	putIn(t, plain, "db", "", "a")
	before := treeOf(t, plain, "db")
	report := storetest.RepairWith(t, "db", logsIn(plain, "db"))
	require.Empty(t, report.LogsAbandoned)
	require.Equal(t, before, treeOf(t, plain, "db"), "a sound database does not change")
}

// A repair without the logs fails at any operation. Either it has no effect, or a second one completes it. The bug: one
// that failed had abandoned the logs already.
func TestAnErrorAtEveryOperationOfARepairWithoutLogs(t *testing.T) {
	start := oldAndNew(t)
	repair := func(mem *vfs.Mem, fault func(wrap.Op) *wrap.Fault) (uint64, error) {
		fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if op.Name == "logs" || filepath.Dir(op.Name) == "logs" {
				return &wrap.Fault{Err: fs.ErrNotExist}
			}
			return fault(op)
		})
		err := db.Repair("db", logsIn(fsys, "db"))
		return fsys.Ops(), err
	}
	ops := result.Of(repair(start.Crash(), func(wrap.Op) *wrap.Fault { return nil }))(t)
	before := treeOf(t, start, "db")
	unchanged := 0
	for n := range ops {
		mem := start.Crash()
		if _, err := repair(mem, wrap.FailFrom(n, syscall.EIO)); err == nil {
			continue // closing what was only read
		}
		for _, after := range []*vfs.Mem{mem, mem.Crash()} {
			files := treeOf(t, after, "db")
			if maps.Equal(before, files) {
				unchanged++
				requireKeys(t, after.Crash(), "db", "old", "new") // the device is back
			}
			if files["LOGDIR"] != before["LOGDIR"] {
				require.NotEqual(t, before[base.CurrentName], files[base.CurrentName], "operation %d: abandoned too early", n)
			}
			_, err := repair(after, func(wrap.Op) *wrap.Fault { return nil })
			require.NoError(t, err, "operation %d", n)
			removeDir(t, after, "logs")
			requireKeys(t, after, "db", "old")
		}
	}
	require.NotZero(t, unchanged)
}

// The bug: a database was moved and then copied. Destroying the copy removed the logs of the moved one.
func TestDestroyKeepsTheLogsOfAMovedDatabase(t *testing.T) {
	mem := vfs.NewMem()
	putIn(t, mem, "first", "logs", "a")
	copyFiles(t, mem, "first", "moved")
	removeDir(t, mem, "first")
	copyFiles(t, mem, "moved", "copy")
	before := treeOf(t, mem, "copy")
	for _, logDir := range []string{"", "copy", "none"} {
		o := logsIn(mem, logDir)
		require.ErrorContains(t, db.Destroy("copy", o), "nothing was removed")
		require.Equal(t, before, treeOf(t, mem, "copy"))
	}
	undecided := mem.Crash()
	require.NoError(t, undecided.Remove(filepath.Join("copy", "LOGDIR")))
	require.NoError(t, db.Destroy("copy", storetest.Options(undecided)))
	requireKeys(t, undecided, "moved", "a")
	require.NoError(t, db.Destroy("moved", storetest.Options(undecided)), "it was opened there")

	require.NoError(t, db.Destroy("copy", logsIn(mem, "logs")))
	fixture.RequireNone(t, mem, "logs")
}

// The bug: with an older copy of the log directory, a database opened without its newest writes, and without an error.
func TestAnOlderCopyOfTheLogsIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	putIn(t, mem, "db", "logs", "a1")
	copyFiles(t, mem, "logs", "old")
	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a2")
	o := logsIn(mem, "old")
	before := [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "old")}
	for _, readOnly := range []bool{false, true} {
		o.ReadOnly = readOnly
		_, err := db.Open("db", o)
		require.ErrorIs(t, err, db.ErrCorruption)
		require.ErrorContains(t, err, "it has an older copy of them; pass the directory with the newest logs")
		require.Equal(t, before, [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "old")})
	}
	lost, salvaged := mem.Crash(), mem.Crash()
	requireKeys(t, mem, "db", "a1", "a2")

	o = storetest.Options(salvaged)
	o.LogDir, o.Salvage = "old", db.SalvageAll
	d := storetest.MustOpen(t, o)
	storetest.RequireContent(t, d, "a1", "db")
	require.NotEmpty(t, d.OpenReport().MissingLog)
	require.NoError(t, d.Close())

	o = logsIn(lost, "old")
	report := storetest.RepairWith(t, "db", o)
	require.False(t, report.Healthy)
	putIn(t, lost, "db", "old")
	requireKeys(t, lost, "db", "a1")
}

// The bug: a database with such a comparer was created, and never opened again.
func TestAComparerIsNotNamedLikeTheMark(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Comparer = &db.Comparer{Name: base.LogDirPrefix + "mine", Compare: db.BytewiseComparer.Compare}
	require.ErrorContains(t, result.Err(db.Open("db", o)), `that does not begin with "sievedb.LogDir:"`)
	fixture.RequireNone(t, mem, "db")
}
