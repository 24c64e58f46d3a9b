package dbdir

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// elsewhere returns a file system with a database in db whose logs are in logs.
func elsewhere(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := with(t, "CURRENT")
	d := open(t, "db", Options{FS: mem, LogDir: "logs"})
	require.NoError(t, result.Err(d.Prepare()))
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
			abandoned := result.Of(d.Repaired(c.recorded))(t)
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
		require.True(t, result.Of(d.Prepare())(t))
		if err := d.Lock(); c.fail == wrap.OpLock {
			require.ErrorIs(t, err, failed)
		} else {
			require.NoError(t, err)
			if c.left {
				fixture.WriteFile(t, mem, "new/notes.txt", nil)
			}
			require.NoError(t, d.Abandon())
		}
		_, err := mem.Stat("new")
		require.Equal(t, !c.left, errors.Is(err, fs.ErrNotExist), name)
		fixture.RequireNone(t, mem, "new/deep")
	}
	d := open(t, "db", Options{FS: vfs.NewMem()})
	require.NoError(t, d.Close(), "nothing is locked")
	require.NoError(t, d.Abandon())
}

// moved returns a file system with a database in /db that has a log in /logs.
func moved(t *testing.T) *vfs.Mem {
	t.Helper()
	mem, _ := twoDirs(t)
	p := find(t, mem, "/db", "/logs")
	require.NoError(t, p.Begin())
	put(t, p.FS, "/db/000003.log", "three")
	require.NoError(t, p.Close())
	return mem
}

// failing returns a file system whose operations on a directory fail.
func failing(mem *vfs.Mem, dir string, err error) vfs.FS {
	return wrap.NewFaulty(mem, wrap.FailIf(err, func(op wrap.Op) bool {
		return op.Name == dir || filepath.Dir(op.Name) == dir
	}))
}

// change prepares the files that moved returns, and returns the file system to look at them with.
type change func(t *testing.T, mem *vfs.Mem) vfs.FS

func without(name string) change {
	return func(t *testing.T, mem *vfs.Mem) vfs.FS {
		require.NoError(t, mem.Remove(name))
		return mem
	}
}

func holding(name, content string) change {
	return func(t *testing.T, mem *vfs.Mem) vfs.FS {
		put(t, mem, name, content)
		return mem
	}
}

// away has the operations on a directory fail.
func away(dir string, err error) change {
	return func(_ *testing.T, mem *vfs.Mem) vfs.FS { return failing(mem, dir, err) }
}

func copied(t *testing.T, mem *vfs.Mem) vfs.FS {
	copyTree(t, mem, "/db", mem, "/copy")
	return mem
}

// logsRefused are the directories of a database, by default /db, and of its logs that are refused. A repair may abandon
// logs that are lost. Those that cannot be read are not, nor those that the recorded directory still has.
type logsRefused struct {
	name, dir, logs string
	prepare         change
	want            string
	is              error
	lost            bool
}

func allLogsRefused(t *testing.T) []logsRefused {
	const (
		other  = "00112233445566778899aabbccddeeff"
		still  = "does not have the logs of the database in /db, which are in /logs; to move them, open the database with its own"
		none   = "/logs does not have the logs of the database in /db"
		copyOf = "/copy is a copy of the database in /db"
		noMark = "this is no mark of a log directory"
	)
	marks := tree(t, moved(t), "/logs")["LOGS"]
	cases := []logsRefused{
		{name: "other logs", logs: "/empty", want: "/empty, " + still},
		{name: "no directory", logs: "/none", want: "/none, " + still},
		{
			name: "other logs, and the recorded ones are lost", logs: "/empty", prepare: without("/logs/LOGS"), lost: true,
			want: "/empty does not have the logs of the database in /db, which were in /logs",
		},
		{name: "another database's", dir: "/second", logs: "/logs", want: "/logs, has the logs of another database, that in /db"},
		{name: "logs of unknown origin", dir: "/second", logs: "/strays", want: "/strays, has logs already, for example 000007.log"},
		{name: "no LOGDIR", logs: "/logs", prepare: without("/db/LOGDIR"), want: "/logs, has logs already, for example 000003.log"},
		{name: "a copy, recorded", dir: "/copy", prepare: copied, want: copyOf + ", to which the logs in /logs belong", lost: true},
		{name: "a copy, given", dir: "/copy", logs: "/logs", prepare: copied, want: copyOf, lost: true},
		{name: "a copy of LOGS as LOGDIR", prepare: holding("/db/LOGDIR", marks), want: "are the same", lost: true},
		{name: "a relative path", prepare: holding("/db/LOGDIR", markOf(other, "logs/../logs")), want: noMark, lost: true},
		{name: "no LOGS", logs: "/db", prepare: without("/logs/LOGS"), want: none, lost: true},
		{name: "no directory of logs", logs: "/db", prepare: away("/logs", fs.ErrNotExist), want: none, lost: true},
		{name: "another identity", logs: "/db", prepare: holding("/logs/LOGS", markOf(other, "/db")), want: none, lost: true},
		{name: "unreadable", logs: "/db", prepare: away("/logs", syscall.EIO), want: "sievedb: ", is: syscall.EIO},
		{name: "unreadable LOGDIR", logs: "/db", prepare: away("/db", syscall.EIO), want: "sievedb: ", is: syscall.EIO},
	}
	for _, name := range []string{"CURRENT", "MANIFEST-000001", "000005.ldb", "000005.sst", "CLOSED", "LOGDIR"} {
		cases = append(cases, logsRefused{
			name: "has " + name, dir: "/second", logs: "/empty", prepare: holding("/empty/"+name, ""),
			want: "/empty, has a database of its own, for example its file " + name,
		})
	}
	for name, whole := range map[string]string{"/db/LOGDIR": tree(t, moved(t), "/db")["LOGDIR"], "/logs/LOGS": marks} {
		for _, bad := range []string{
			"", "x", whole + "x", whole[:len(whole)-1], strings.Replace(whole, "id ", "id g", 1), strings.Repeat("x", maxMark+1),
		} {
			cases = append(cases, logsRefused{prepare: holding(name, bad), want: noMark, is: base.ErrCorruption, lost: name == "/db/LOGDIR"})
		}
		directory := func(t *testing.T, mem *vfs.Mem) vfs.FS {
			without(name)(t, mem)
			require.NoError(t, mem.MkdirAll(name))
			return mem
		}
		cases = append(cases,
			logsRefused{name: "a directory", prepare: directory, want: noMark, is: base.ErrCorruption, lost: name == "/db/LOGDIR"},
			// The bug: it was damage, and the advice was to write it again. A repair must not abandon the logs.
			logsRefused{name: "a newer mark", prepare: holding(name, whole+"mirror \"/third\"\n"), want: name, is: base.ErrNewer},
		)
	}
	return cases
}

func markOf(id, other string) string { return string(mark{id, other}.encode()) }

func TestDirectoriesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	for _, c := range allLogsRefused(t) {
		t.Run(c.name, func(t *testing.T) {
			mem := moved(t)
			for _, dir := range []string{"/empty", "/second", "/strays"} {
				require.NoError(t, vfs.MkdirAllSynced(mem, dir))
			}
			put(t, mem, "/strays/000007.log", "seven")
			var fsys vfs.FS = mem
			if c.prepare != nil {
				fsys = c.prepare(t, mem)
			}
			_, err := findLogs(fsys, cmp.Or(c.dir, "/db"), c.logs)
			require.ErrorContains(t, err, c.want)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.Equal(t, c.lost, isLost(err))
		})
	}
	mem, _ := twoDirs(t)
	for _, name := range []string{"LOCK", "notes.txt"} {
		put(t, mem, filepath.Join("/logs", name), "")
	}
	find(t, mem, "/db", "/logs")
}

func TestADirectoryOfLogsIsRecognized(t *testing.T) {
	mem := moved(t)
	require.ErrorIs(t, refuseLogs(failing(mem, "/logs", syscall.EIO), "/logs"), syscall.EIO)
	put(t, mem, "/logs/LOGS", "damaged")
	require.ErrorContains(t, refuseLogs(mem, "/logs"), "sievedb: /logs has the logs of the database in an unknown directory")
	put(t, mem, "/logs/CURRENT", "")
	require.NoError(t, refuseLogs(mem, "/logs"))
}

// Another database begins, or a copy of the database uses the logs, between findLogs and the lock.
func TestDirectoriesAreComparedUnderTheLock(t *testing.T) {
	mem, _ := twoDirs(t)
	second := result.Of(findLogs(mem, "/second", "/logs"))(t)
	p := find(t, mem, "/db", "/logs")
	require.NoError(t, p.Begin())
	put(t, p.FS, "/db/000003.log", "three")
	require.NoError(t, p.Close())
	before := tree(t, mem, "/logs")
	require.ErrorContains(t, second.Begin(), "has the logs of another database, that in /db")
	require.NoError(t, second.Undo())
	require.NoError(t, second.Close())
	require.Equal(t, before, tree(t, mem, "/logs"))

	for _, copied := range []string{"/new", "/copy"} {
		copyTree(t, mem, "/db", mem, copied)
	}
	require.NoError(t, mem.Remove("/db/LOGDIR"))
	late := result.Of(findLogs(mem, "/copy", ""))(t)
	begin(t, mem, "/new", "")
	require.ErrorContains(t, late.Lock(false), "/copy is a copy of the database in /new")
	find(t, mem, "/new", "")
}

func TestOnlyNewDirectoriesAreRemoved(t *testing.T) {
	mem := vfs.NewMem()
	put(t, mem, "/file", "")
	made, err := makeDirs(mem, "/file/deep/dir")
	require.ErrorContains(t, err, "sievedb: creating the directory /file/deep/dir")
	require.Empty(t, made)
	require.Contains(t, tree(t, mem, "/"), "file")
	require.ErrorIs(t, result.Err(makeDirs(failing(mem, "/new", syscall.EIO), "/new/dir")), syscall.EIO)
	made = result.Of(makeDirs(mem, "/new/dir"))(t)
	require.Equal(t, []string{"/new/dir", "/new"}, made)
	put(t, mem, "/new/notes.txt", "")
	removeDirs(mem, made)
	require.Contains(t, tree(t, mem, "/new"), "notes.txt")
}
