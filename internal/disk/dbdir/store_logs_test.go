package dbdir_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// logsIn returns options with the logs in another directory.
func logsIn(fsys vfs.FS, dir string) *db.Options {
	o := storetest.Options(fsys)
	o.LogDir = dir
	return o
}

// putAndCrash opens a store, writes one key that only the log has, and loses power.
func putAndCrash(t *testing.T, o *db.Options, mem *vfs.Mem, key string) *vfs.Mem {
	t.Helper()
	d := storetest.MustOpen(t, o)
	require.NoError(t, d.Put([]byte(key), []byte("in the log"), db.Sync))
	after := mem.Crash()
	require.NoError(t, d.Close())
	return after
}

// oldAndNew returns the files after a loss of power: a table has the key "old", and a log in "logs" has "new".
func oldAndNew(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, logsIn(mem, "logs"))
	require.NoError(t, d.Put([]byte("old"), []byte("in a table"), db.Sync))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Put([]byte("new"), []byte("in the log"), db.Sync))
	after := mem.Crash()
	require.NoError(t, d.Close())
	return after
}

// logsOf returns the names of the logs in a directory.
func logsOf(t *testing.T, fsys vfs.FS, dir string) (logs []string) {
	t.Helper()
	names := fixture.List(t, fsys, dir)
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
	_, _, err := manifest.Load(manifest.SetOptions{FS: fsys, Dir: "db", Cmp: &db.Comparer{Name: "unknown", Compare: db.BytewiseComparer.Compare}, LogsMarked: true})
	require.ErrorContains(t, err, "comparer")
	plain := "leveldb.BytewiseComparator"
	require.ErrorContains(t, err, plain)
	names := fixture.List(t, fsys, "db")
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileManifest && strings.Contains(string(fixture.ReadFile(t, fsys, filepath.Join("db", name))), base.LogDirPrefix+plain) {
			return base.LogDirPrefix + plain
		}
	}
	return plain
}

// The logs of an existing database move with the next opening, stay there without the option, and come
// back. No write is lost by a power cut in any of the three.
func TestLogsMoveAndComeBack(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, storetest.Options(mem), mem, "a")
	require.NotEmpty(t, logsOf(t, mem, "db"))

	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "b")
	require.Len(t, logsOf(t, mem, "logs"), 1)
	require.Equal(t, base.LogDirPrefix+"leveldb.BytewiseComparator", comparerInManifest(t, mem))

	before := logsOf(t, mem, "logs")
	mem = putAndCrash(t, storetest.Options(mem), mem, "c")
	require.NotEqual(t, before, logsOf(t, mem, "logs"))

	back := logsIn(mem, "db")
	d := storetest.MustOpen(t, back)
	storetest.RequireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log")
	require.NoError(t, d.Put([]byte("d"), []byte("back"), db.Sync))
	usage := result.Of(d.DiskUsage())(t)
	require.Positive(t, usage.Logs)
	require.NoError(t, d.Close())
	mem = mem.Crash()
	require.Len(t, logsOf(t, mem, "db"), 1)
	require.Equal(t, "leveldb.BytewiseComparator", comparerInManifest(t, mem))
	left := fixture.List(t, mem, "logs")
	require.Empty(t, left)
	names := fixture.List(t, mem, "db")
	require.NotContains(t, names, "LOGDIR")
	d = storetest.Open(t, storetest.Options(mem))
	storetest.RequireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log", "d", "back")
}

// Logs that are in one directory do not move to a second one directly: Open says how they do, and both ways work.
func TestLogsDoNotMoveToASecondDirectoryDirectly(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		mem := vfs.NewMem()
		mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a")
		second := logsIn(mem, "second")
		before := [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")}
		_, err := db.Open("db", second)
		require.ErrorContains(t, err, "second, does not have the logs of the database in db, which are in logs; to move them")
		require.ErrorContains(t, result.Err(db.RepairWithReport("db", second)), "which are in logs; to move them")
		require.Equal(t, before, [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")})
		fixture.RequireNone(t, mem, "second")

		if byHand {
			copyFiles(t, mem, "logs", "second")
			removeDir(t, mem, "logs")
		} else {
			back := logsIn(mem, "db")
			mem = putAndCrash(t, back, mem, "b")
			second.FS = fixture.CheckOrder(mem)
		}
		mem = putAndCrash(t, second, mem, "c")
		require.NotEmpty(t, logsOf(t, mem, "second"))
		if d := storetest.Open(t, storetest.Options(mem)); byHand {
			storetest.RequireContent(t, d, "a", "in the log", "c", "in the log")
		} else {
			storetest.RequireContent(t, d, "a", "in the log", "b", "in the log", "c", "in the log")
		}
	}
}

// A store with its logs elsewhere is read-only without a change, and counts its logs.
func TestAReadOnlyStoreWithItsLogsElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a")
	before := [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")}
	o := storetest.Options(mem)
	o.ReadOnly = true
	d := storetest.Open(t, o)
	storetest.RequireContent(t, d, "a", "in the log")
	require.ErrorIs(t, result.Err(db.Open("db", storetest.Options(mem))), db.ErrLocked)
	usage := result.Of(d.DiskUsage())(t)
	require.Positive(t, usage.Logs)
	require.NoError(t, d.Close())
	require.Equal(t, before, [2]map[string]string{treeOf(t, mem, "db"), treeOf(t, mem, "logs")})
}

// treeOf returns the files of a directory, without LOCK.
func treeOf(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names := fixture.List(t, fsys, dir)
	for _, name := range names {
		if info, err := fsys.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() && name != base.LockName {
			files[name] = string(fixture.ReadFile(t, fsys, filepath.Join(dir, name)))
		}
	}
	return files
}

// Without its logs a database is refused and stays as it is. Repair continues without them only if it is
// asked to, and says so.
func TestADatabaseWithoutItsLogs(t *testing.T) {
	mem := oldAndNew(t)
	for name := range treeOf(t, mem, "logs") {
		require.NoError(t, mem.Remove(filepath.Join("logs", name)))
	}
	before := treeOf(t, mem, "db")
	for _, logDir := range []string{"", "logs", "elsewhere", "db"} {
		o := logsIn(mem, logDir)
		_, err := db.Open("db", o)
		require.ErrorContains(t, err, "does not have the logs of the database in db")
		if logDir != "db" {
			_, err = db.RepairWithReport("db", o)
			require.ErrorContains(t, err, "does not have the logs of the database in db")
		}
		require.Equal(t, before, treeOf(t, mem, "db"))
	}
	o := logsIn(mem, "db")
	report := storetest.RepairWith(t, "db", o)
	require.Equal(t, "logs", report.LogsAbandoned)
	for _, logDir := range []string{"", "logs"} {
		o := logsIn(mem, logDir)
		d := storetest.MustOpen(t, o)
		storetest.RequireContent(t, d, "old", "in a table")
		require.NoError(t, d.Close())
	}
}

// If LOGDIR is lost, the MANIFEST shows that logs are missing.
func TestADatabaseWithoutItsMark(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a")
	require.NoError(t, mem.Remove(filepath.Join("db", "LOGDIR")))
	_, err := db.Open("db", storetest.Options(mem))
	require.ErrorContains(t, err, "the file LOGDIR, which says where, is missing")
	require.ErrorContains(t, db.Repair("db", storetest.Options(mem)), "the file LOGDIR, which says where, is missing")
	require.ErrorContains(t, result.Err(db.Open("db", logsIn(mem, "logs"))), "write LOGDIR again as a copy of LOGS")
	fixture.WriteFile(t, mem, filepath.Join("db", "LOGDIR"), fixture.ReadFile(t, mem, filepath.Join("logs", "LOGS")))
	storetest.RequireContent(t, storetest.Open(t, logsIn(mem, "logs")), "a", "in the log")
}

// Repair reads the logs wherever they are. What it does not need goes to lost, next to the tables.
func TestRepairReadsLogsElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, logsIn(mem, "logs"), mem, "a")
	require.NoError(t, mem.Remove(filepath.Join("db", base.CurrentName)))
	log := logsOf(t, mem, "logs")[0]
	report := storetest.RepairWith(t, "db", storetest.Options(mem))
	require.Empty(t, report.LogsAbandoned)
	require.False(t, report.Healthy)
	require.Contains(t, treeOf(t, mem, filepath.Join("db", base.LostDir)), log)
	storetest.RequireContent(t, storetest.Open(t, storetest.Options(mem)), "a", "in the log")
	require.Empty(t, logsOf(t, mem, "db"))
}

// An opening that fails leaves both directories as they were. The bug: those that it had made stayed.
func TestAFailedOpenMovesNoLogs(t *testing.T) {
	mem := vfs.NewMem()
	mem = putAndCrash(t, storetest.Options(mem), mem, "a")
	fixture.WriteFile(t, mem, "file", nil)
	for _, dir := range []string{"logs", "there"} {
		require.NoError(t, vfs.MkdirAllSynced(mem, dir))
	}
	before := treeOf(t, mem, "db")
	creates := func(name string) func(op wrap.Op) bool {
		return func(op wrap.Op) bool { return op.Kind == wrap.OpCreate && strings.Contains(op.Name, name) }
	}
	locks := func(dir string) func(op wrap.Op) bool {
		return func(op wrap.Op) bool { return op.Kind == wrap.OpLock && strings.Contains(op.Name, dir) }
	}
	deep := filepath.Join("new", "deep") // a new database
	for name, c := range map[string]struct {
		dir, logDir, comparer string
		fail                  func(op wrap.Op) bool
	}{
		"LOGS": {dir: "db", logDir: "logs", fail: func(op wrap.Op) bool {
			return op.Kind == wrap.OpWrite && strings.HasPrefix(op.Name, filepath.Join("logs", "LOGS"))
		}},
		"LOGDIR": {dir: "db", logDir: "logs", fail: func(op wrap.Op) bool {
			return op.Kind == wrap.OpRename && strings.HasPrefix(op.Name, filepath.Join("db", "LOGDIR"))
		}},
		"the log":                        {dir: "db", logDir: "logs", fail: creates(".log")},
		"the MANIFEST":                   {dir: "db", logDir: "logs", fail: creates("MANIFEST")},
		"the comparer":                   {dir: "db", logDir: filepath.Join("there", "logs"), comparer: "other"},
		"a file":                         {dir: deep, logDir: "file"},
		"under a file":                   {dir: deep, logDir: filepath.Join("file", "logs")},
		"LOGS of a new database":         {dir: deep, logDir: filepath.Join("there", "new", "logs"), fail: creates("LOGS.copying")},
		"the lock of the logs":           {dir: deep, logDir: filepath.Join("there", "logs"), fail: locks("logs")},
		"the lock":                       {dir: deep, fail: locks("deep")},
		"the MANIFEST of a new database": {dir: deep, fail: creates("MANIFEST")},
		"CURRENT of a new database":      {dir: deep, logDir: "logs", fail: creates(".dbtmp")},
	} {
		o := logsIn(wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool { return c.fail != nil && c.fail(op) })), c.logDir)
		if c.comparer != "" {
			o.Comparer = &db.Comparer{Name: c.comparer, Compare: db.BytewiseComparer.Compare}
		}
		_, err := db.Open(c.dir, o)
		switch {
		case c.fail != nil:
			require.ErrorIs(t, err, db.ErrNoSpace, name)
		case c.comparer != "":
			require.ErrorContains(t, err, "comparer")
		default:
			require.ErrorContains(t, err, "sievedb: ", name)
		}
		require.Equal(t, before, treeOf(t, mem, "db"), name)
		require.Empty(t, treeOf(t, mem, "logs"), name)
		require.Empty(t, fixture.List(t, mem, "there"), name)
		require.Equal(t, []string{"db", "file", "logs", "there"}, fixture.List(t, mem, "."), name)
	}
}

// Rotated logs are removed in the other directory as usual.
func TestLogsElsewhereAreRemovedAfterFlushes(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, logsIn(mem, "logs"))
	for i := range 5 {
		storetest.Fill(t, d, 100*i, 100*i+100)
		require.NoError(t, d.Flush())
	}
	fixture.Eventually(t, func() bool { return len(logsOf(t, mem, "logs")) == 1 })
	require.Empty(t, logsOf(t, mem, "db"))
}
