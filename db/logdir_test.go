package db

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// withLogDir returns options with the logs in "logs".
func withLogDir(fsys vfs.FS) *Options {
	o := testOptions(fsys)
	o.LogDir = "logs"
	return o
}

// putAndCrash opens a store, writes one key that only the log has, and loses power.
func putAndCrash(t *testing.T, o *Options, mem *vfs.Mem, key string) *vfs.Mem {
	t.Helper()
	d := mustOpen(t, o)
	require.NoError(t, d.Put([]byte(key), []byte("in the log"), Sync))
	after := mem.Crash()
	require.NoError(t, d.Close())
	return after
}

// logsOf returns the names of the logs in a directory.
func logsOf(t *testing.T, fsys vfs.FS, dir string) (logs []string) {
	t.Helper()
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileLog {
			logs = append(logs, name)
		}
	}
	return logs
}

// comparerInManifest returns the name of the comparer that other engines would see.
func comparerInManifest(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	_, _, err := manifest.Load(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: &Comparer{Name: "unknown", Compare: BytewiseComparer.Compare}, LogsMarked: true})
	require.ErrorContains(t, err, "comparer")
	plain := "leveldb.BytewiseComparator"
	require.ErrorContains(t, err, plain)
	names, err := fsys.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileManifest && strings.Contains(string(readFile(t, fsys, filepath.Join("db", name))), base.LogDirPrefix+plain) {
			return base.LogDirPrefix + plain
		}
	}
	return plain
}

// The logs of an existing database move with the next opening, stay there without the option, and come
// back. No write is lost by a power cut in any of the three.
func TestLogsMoveAndComeBack(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, testOptions(mem), mem, "a")
	require.NotEmpty(t, logsOf(t, mem, "db"))

	mem = putAndCrash(t, withLogDir(mem), mem, "b")
	require.Len(t, logsOf(t, mem, "logs"), 1)
	require.Equal(t, base.LogDirPrefix+"leveldb.BytewiseComparator", comparerInManifest(t, mem))

	before := logsOf(t, mem, "logs")
	mem = putAndCrash(t, testOptions(mem), mem, "c")
	require.NotEqual(t, before, logsOf(t, mem, "logs"))

	back := testOptions(mem)
	back.LogDir = "db"
	d := mustOpen(t, back)
	requireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log")
	require.NoError(t, d.Put([]byte("d"), []byte("back"), Sync))
	usage, err := d.DiskUsage()
	require.NoError(t, err)
	require.Positive(t, usage.Logs)
	require.NoError(t, d.Close())
	mem = mem.Crash()
	require.Len(t, logsOf(t, mem, "db"), 1)
	require.Equal(t, "leveldb.BytewiseComparator", comparerInManifest(t, mem))
	left, err := mem.List("logs")
	require.NoError(t, err)
	require.Empty(t, left)
	names, err := mem.List("db")
	require.NoError(t, err)
	require.NotContains(t, names, "LOGDIR")
	d = openTest(t, testOptions(mem))
	requireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log", "d", "back")
}

// Logs that are in one directory do not move to a second one directly: Open says how they do, and both ways work.
func TestLogsDoNotMoveToASecondDirectoryDirectly(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		mem := vfs.NewMem()
		mem = putAndCrash(t, withLogDir(mem), mem, "a")
		second := testOptions(mem)
		second.LogDir = "second"
		before := [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")}
		_, err := Open("db", second)
		require.ErrorContains(t, err, "second, does not have the logs of the database in db, which are in logs; to move them")
		_, err = RepairWithReport("db", second)
		require.ErrorContains(t, err, "which are in logs; to move them")
		require.Equal(t, before, [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")})
		_, err = mem.Stat("second")
		require.ErrorIs(t, err, fs.ErrNotExist)

		if byHand {
			copyFiles(t, mem, "logs", "second")
			removeDir(t, mem, "logs")
		} else {
			back := testOptions(mem)
			back.LogDir = "db"
			mem = putAndCrash(t, back, mem, "b")
			second.FS = checkOrder(mem)
		}
		mem = putAndCrash(t, second, mem, "c")
		require.NotEmpty(t, logsOf(t, mem, "second"))
		if d := openTest(t, testOptions(mem)); byHand {
			requireContent(t, d, "a", "in the log", "c", "in the log")
		} else {
			requireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log")
		}
	}
}

// A store with its logs elsewhere is read-only without a change, and counts its logs.
func TestAReadOnlyStoreWithItsLogsElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, withLogDir(mem), mem, "a")
	before := [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")}
	o := testOptions(mem)
	o.ReadOnly = true
	d := openTest(t, o)
	requireContent(t, d, "a", "in the log")
	_, err := Open("db", testOptions(mem))
	require.ErrorIs(t, err, ErrLocked)
	usage, err := d.DiskUsage()
	require.NoError(t, err)
	require.Positive(t, usage.Logs)
	require.NoError(t, d.Close())
	require.Equal(t, before, [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")})
}

// treeOf returns the files of a directory, without LOCK.
func treeOf(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		if info, err := fsys.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() && name != base.LockName {
			files[name] = string(readFile(t, fsys, filepath.Join(dir, name)))
		}
	}
	return files
}

// Without its logs a database is refused and stays as it is. Repair continues without them only if it is
// asked to, and says so.
func TestADatabaseWithoutItsLogs(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, withLogDir(mem))
	require.NoError(t, d.Put([]byte("old"), []byte("in a table"), Sync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Put([]byte("new"), []byte("in the log"), Sync))
	mem = mem.Crash()
	require.NoError(t, d.Close())
	for name := range treeOf(t, mem, "logs") {
		require.NoError(t, mem.Remove(filepath.Join("logs", name)))
	}
	before := treeOf(t, mem, "db")
	for _, logDir := range []string{"", "logs", "elsewhere", "db"} {
		o := testOptions(mem)
		o.LogDir = logDir
		_, err := Open("db", o)
		require.ErrorContains(t, err, "does not have the logs of the database in db")
		if logDir != "db" {
			_, err = RepairWithReport("db", o)
			require.ErrorContains(t, err, "does not have the logs of the database in db")
		}
		require.Equal(t, before, treeOf(t, mem, "db"))
	}
	o := testOptions(mem)
	o.LogDir = "db"
	report, err := RepairWithReport("db", o)
	require.NoError(t, err)
	require.Equal(t, "logs", report.LogsAbandoned)
	for _, logDir := range []string{"", "logs"} {
		o := testOptions(mem)
		o.LogDir = logDir
		d := mustOpen(t, o)
		requireContent(t, d, "old", "in a table")
		require.NoError(t, d.Close())
	}
}

// If LOGDIR is lost, the MANIFEST shows that logs are missing.
func TestADatabaseWithoutItsMark(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, withLogDir(mem), mem, "a")
	require.NoError(t, mem.Remove(filepath.Join("db", "LOGDIR")))
	_, err := Open("db", testOptions(mem))
	require.ErrorContains(t, err, "the file LOGDIR, which says where, is missing")
	require.ErrorContains(t, Repair("db", testOptions(mem)), "the file LOGDIR, which says where, is missing")
	_, err = Open("db", withLogDir(mem))
	require.ErrorContains(t, err, "write LOGDIR again as a copy of LOGS")
	writeFile(t, mem, filepath.Join("db", "LOGDIR"), readFile(t, mem, filepath.Join("logs", "LOGS")))
	requireContent(t, openTest(t, withLogDir(mem)), "a", "in the log")
}

// Repair reads the logs wherever they are. What it does not need goes to lost, next to the tables.
func TestRepairReadsLogsElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, withLogDir(mem), mem, "a")
	require.NoError(t, mem.Remove(filepath.Join("db", base.CurrentName)))
	log := logsOf(t, mem, "logs")[0]
	report, err := RepairWithReport("db", testOptions(mem))
	require.NoError(t, err)
	require.Empty(t, report.LogsAbandoned)
	require.False(t, report.Healthy)
	require.Contains(t, treeOf(t, mem, filepath.Join("db", base.LostDir)), log)
	requireContent(t, openTest(t, testOptions(mem)), "a", "in the log")
	require.Empty(t, logsOf(t, mem, "db"))
}

func TestDestroyRemovesLogsElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, withLogDir(mem), mem, "a")
	writeFile(t, mem, filepath.Join("logs", "notes.txt"), nil)
	require.NoError(t, Destroy("db", testOptions(mem)))
	_, err := mem.Stat("db")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, map[string]string{"notes.txt": ""}, treeOf(t, mem, "logs"))

	// The logs may be gone.
	mem = putAndCrash(t, withLogDir(mem), mem, "a")
	require.NoError(t, mem.Remove(filepath.Join("logs", "LOGS")))
	require.NoError(t, Destroy("db", testOptions(mem)))
	_, err = mem.Stat("db")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Len(t, logsOf(t, mem, "logs"), 1, "their owner is unknown")
}

// An opening that fails leaves both directories as they were.
func TestAFailedOpenMovesNoLogs(t *testing.T) {
	for name, fault := range map[string]func(op wrap.Op) bool{
		"the marks": func(op wrap.Op) bool {
			return op.Kind == wrap.OpWrite && strings.HasPrefix(op.Name, filepath.Join("logs", "LOGS"))
		},
		"the other": func(op wrap.Op) bool {
			return op.Kind == wrap.OpRename && strings.HasPrefix(op.Name, filepath.Join("db", "LOGDIR"))
		},
		"the log": func(op wrap.Op) bool { return op.Kind == wrap.OpCreate && filepath.Ext(op.Name) == ".log" },
		"the MANIFEST": func(op wrap.Op) bool {
			return op.Kind == wrap.OpCreate && strings.HasPrefix(op.Name, filepath.Join("db", "MANIFEST"))
		},
	} {
		mem := vfs.NewMem()
		mem = putAndCrash(t, testOptions(mem), mem, "a")
		require.NoError(t, vfs.MkdirAllSynced(mem, "logs"))
		before := treeOf(t, mem, "db")
		_, err := Open("db", withLogDir(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if !fault(op) {
				return nil
			}
			return &wrap.Fault{Err: syscall.ENOSPC}
		})))
		require.ErrorIs(t, err, ErrNoSpace, name)
		require.Equal(t, before, treeOf(t, mem, "db"), name)
		require.Empty(t, treeOf(t, mem, "logs"), name)
	}
	mem := vfs.NewMem()
	mem = putAndCrash(t, testOptions(mem), mem, "a")
	before := treeOf(t, mem, "db")
	o := withLogDir(mem)
	o.Comparer = &Comparer{Name: "other", Compare: BytewiseComparer.Compare}
	_, err := Open("db", o)
	require.ErrorContains(t, err, "comparer")
	require.Equal(t, before, treeOf(t, mem, "db"))
	_, err = mem.Stat("logs")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestEachDatabaseHasALogDirectoryOfItsOwn(t *testing.T) {
	mem := vfs.NewMem()
	openTest(t, withLogDir(mem))
	_, err := Open("second", withLogDir(mem))
	require.ErrorContains(t, err, "logs, has the logs of another database, that in db")
	_, err = mem.Stat("second")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Rotated logs are removed in the other directory as usual.
func TestLogsElsewhereAreRemovedAfterFlushes(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, withLogDir(mem))
	for i := range 5 {
		fill(t, d, 100*i, 100*i+100)
		require.NoError(t, d.Flush())
	}
	eventually(t, func() bool { return len(logsOf(t, mem, "logs")) == 1 })
	require.Empty(t, logsOf(t, mem, "db"))
}
