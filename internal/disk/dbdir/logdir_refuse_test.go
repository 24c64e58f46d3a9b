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
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

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
	second, err := findLogs(mem, "/second", "/logs")
	require.NoError(t, err)
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
	late, err := findLogs(mem, "/copy", "")
	require.NoError(t, err)
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
	_, err = makeDirs(failing(mem, "/new", syscall.EIO), "/new/dir")
	require.ErrorIs(t, err, syscall.EIO)
	made, err = makeDirs(mem, "/new/dir")
	require.NoError(t, err)
	require.Equal(t, []string{"/new/dir", "/new"}, made)
	put(t, mem, "/new/notes.txt", "")
	removeDirs(mem, made)
	require.Contains(t, tree(t, mem, "/new"), "notes.txt")
}
