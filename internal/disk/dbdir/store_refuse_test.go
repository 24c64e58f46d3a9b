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
	"github.com/sievedb/sievedb/internal/test/script/stores"
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

// logsIn returns options with the logs in another directory.
func logsIn(fsys vfs.FS, dir string) *db.Options {
	o := storetest.Options(fsys)
	o.LogDir = dir
	return o
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

// TestScripts runs scenarios with logs in another directory.
func TestScripts(t *testing.T) { stores.Run(t, "testdata/scripts") }
