package dbdir

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// elsewhere returns a file system with a database in db whose logs are in logs.
func elsewhere(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := with(t, "CURRENT")
	d := open(t, "db", Options{FS: mem, LogDir: "logs"})
	_, err := d.Prepare()
	require.NoError(t, err)
	require.NoError(t, d.Lock())
	require.NoError(t, d.Logs.Begin())
	fixture.WriteFile(t, d.FS, "db/000003.log", nil)
	require.NoError(t, d.Close())
	require.Equal(t, []string{"000003.log", "LOCK", "LOGS"}, fixture.List(t, mem, "logs"))
	return mem
}

// unreadable returns a file system on which the directory of the logs cannot be read.
func unreadable(mem *vfs.Mem, err error) vfs.FS {
	return wrap.NewFaulty(mem, wrap.FailIf(err, func(op wrap.Op) bool { return strings.HasPrefix(op.Name, "logs") }))
}

func TestARepairLeavesOutLostLogs(t *testing.T) {
	for name, c := range map[string]struct {
		prepare   func(t *testing.T, mem *vfs.Mem) vfs.FS
		recorded  bool // a MANIFEST records that logs are elsewhere
		abandoned string
		found     bool
		err       error
	}{
		"found":           {found: true, recorded: true},
		"unreadable":      {prepare: func(_ *testing.T, mem *vfs.Mem) vfs.FS { return unreadable(mem, syscall.EIO) }, err: syscall.EIO},
		"lost":            {prepare: func(_ *testing.T, mem *vfs.Mem) vfs.FS { return unreadable(mem, fs.ErrNotExist) }, abandoned: "logs"},
		"no mark":         {prepare: withoutMark, recorded: true, abandoned: "unknown"},
		"never elsewhere": {prepare: withoutMark},
		"damaged mark": {recorded: true, abandoned: "unknown", prepare: func(t *testing.T, mem *vfs.Mem) vfs.FS {
			withoutMark(t, mem)
			fixture.WriteFile(t, mem, "db/LOGDIR", nil)
			return mem
		}},
	} {
		t.Run(name, func(t *testing.T) {
			mem := elsewhere(t)
			var fsys vfs.FS = mem
			if c.prepare != nil {
				fsys = c.prepare(t, mem)
			}
			d := open(t, "db", Options{FS: fsys, LogDir: "db"})
			err := d.FindOrAbandonLogs()
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				require.ErrorIs(t, d.LockToRepair(), c.err)
				return
			}
			require.NoError(t, err)
			before := fixture.List(t, mem, "db")
			require.NoError(t, d.LockToRepair())
			require.Equal(t, c.found, d.Logs.Found())
			require.True(t, d.Logs.Marked())
			require.NoError(t, d.Abandon())
			require.Equal(t, before, fixture.List(t, mem, "db"), "nothing is recorded before the repair succeeds")

			require.NoError(t, d.FindOrAbandonLogs())
			require.NoError(t, d.LockToRepair())
			abandoned, err := d.Repaired(c.recorded)
			require.NoError(t, err)
			require.Equal(t, c.abandoned, abandoned)
			require.NoError(t, d.Close())
			d = open(t, "db", Options{FS: mem})
			require.NoError(t, d.FindLogs())
			require.Equal(t, c.found, d.Logs.Found())
			require.Equal(t, name != "never elsewhere", d.Logs.Marked())
		})
	}
	d := open(t, "db", Options{FS: unreadable(elsewhere(t), fs.ErrNotExist)})
	require.ErrorContains(t, d.FindOrAbandonLogs(), "does not have the logs", "only if it is asked to")
}

// A repair has listed the logs before the lock. If they move in between, it would miss those of the new directory.
func TestLogsMoveBeforeARepair(t *testing.T) {
	mem := elsewhere(t)
	d := open(t, "db", Options{FS: mem})
	require.NoError(t, d.FindOrAbandonLogs())
	other := open(t, "db", Options{FS: mem, LogDir: "db"})
	require.NoError(t, other.Lock())
	require.NoError(t, other.FS.Remove("db/000003.log"))
	require.NoError(t, other.Logs.Finish())
	require.NoError(t, other.Close())
	require.ErrorContains(t, d.LockToRepair(), "another process moved the logs of db when the repair began")
	require.NoError(t, d.FindOrAbandonLogs())
	require.NoError(t, d.LockToRepair())
	require.NoError(t, d.Close())
}

func withoutMark(t *testing.T, mem *vfs.Mem) vfs.FS {
	t.Helper()
	require.NoError(t, mem.Remove("db/LOGDIR"))
	return mem
}

func TestWhichLogsAreDestroyed(t *testing.T) {
	for name, c := range map[string]struct {
		logDir string
		away   error
		left   []string // in logs, nil if the directory is removed
		err    error
	}{
		"recorded":   {},
		"given":      {logDir: "logs"},
		"wrong":      {logDir: "other"}, // the bug: the recorded logs stayed
		"not alone":  {left: []string{"notes.txt"}},
		"missing":    {away: fs.ErrNotExist, left: []string{"000003.log", "LOCK", "LOGS"}},
		"unreadable": {away: syscall.EIO, err: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			mem := elsewhere(t)
			var fsys vfs.FS = mem
			if c.away != nil {
				fsys = unreadable(mem, c.away)
			}
			d := open(t, "db", Options{FS: fsys, LogDir: c.logDir})
			err := d.LockToDestroy()
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			if c.away == nil {
				require.NoError(t, d.FS.Remove("db/000003.log"))
			}
			if name == "not alone" {
				fixture.WriteFile(t, mem, "logs/notes.txt", nil)
			}
			require.NoError(t, mem.MkdirAll("other"))
			fixture.WriteFile(t, mem, "other/000009.log", nil)
			require.NoError(t, d.Remove())
			require.Equal(t, []string{"000009.log"}, fixture.List(t, mem, "other"))
			require.Equal(t, []string{"CURRENT"}, fixture.List(t, mem, "db"))
			if c.left != nil {
				require.Equal(t, c.left, fixture.List(t, mem, "logs"))
				return
			}
			fixture.RequireNone(t, mem, "logs")
		})
	}
	mem := elsewhere(t)
	require.NoError(t, mem.Rename("db/LOGDIR", "LOGDIR"))
	require.NoError(t, mem.MkdirAll("moved"))
	require.NoError(t, mem.Rename("LOGDIR", "moved/LOGDIR"))
	d := open(t, "moved", Options{FS: mem})
	require.ErrorContains(t, d.LockToDestroy(), "nothing was removed")
	require.Equal(t, []string{"LOGDIR"}, fixture.List(t, mem, "moved"))
}

// What Prepare made is removed if the opening fails, but only while it is empty.
func TestDirectoriesOfAFailedOpeningAreRemoved(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		fail wrap.OpKind
		left bool
	}{"the lock": {fail: wrap.OpLock}, "afterwards": {fail: wrap.OpSize}, "with files": {fail: wrap.OpSize, left: true}} {
		mem := vfs.NewMem()
		d := open(t, "new/deep", Options{FS: wrap.NewFaulty(mem, wrap.FailIf(failed, func(op wrap.Op) bool {
			return op.Kind == c.fail
		}))})
		created, err := d.Prepare()
		require.NoError(t, err)
		require.True(t, created)
		if err := d.Lock(); c.fail == wrap.OpLock {
			require.ErrorIs(t, err, failed)
		} else {
			require.NoError(t, err)
			if c.left {
				fixture.WriteFile(t, mem, "new/notes.txt", nil)
			}
			require.NoError(t, d.Abandon())
		}
		_, err = mem.Stat("new")
		require.Equal(t, !c.left, errors.Is(err, fs.ErrNotExist), name)
		fixture.RequireNone(t, mem, "new/deep")
	}
	d := open(t, "db", Options{FS: vfs.NewMem()})
	require.NoError(t, d.Close(), "nothing is locked")
	require.NoError(t, d.Abandon())
}
