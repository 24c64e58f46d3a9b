package dbdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

func find(t *testing.T, fsys vfs.FS, dir, wanted string) *LogDir {
	t.Helper()
	p, err := findLogs(fsys, dir, wanted)
	require.NoError(t, err)
	require.NoError(t, p.Lock(false))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// begin marks the directories, and returns when they are not locked any more.
func begin(t *testing.T, fsys vfs.FS, dir, logs string) {
	t.Helper()
	p := find(t, fsys, dir, logs)
	require.NoError(t, p.Begin())
	require.NoError(t, p.Close())
}

// copyTree copies the files of a directory.
func copyTree(t *testing.T, from vfs.FS, dir string, to vfs.FS, copied string) {
	t.Helper()
	require.NoError(t, vfs.MkdirAllSynced(to, copied))
	for name, data := range tree(t, from, dir) {
		put(t, to, filepath.Join(copied, name), data)
	}
}

func TestTheDirectoryOfTheLogsIsRecorded(t *testing.T) {
	mem, _ := twoDirs(t)
	for _, wanted := range []string{"", "/db", "/db/"} {
		p := find(t, mem, "/db", wanted)
		require.False(t, p.Elsewhere())
		require.False(t, p.Marked())
		require.NoError(t, p.Begin())
		require.NoError(t, p.Finish())
	}
	p := find(t, mem, "/db", "/logs")
	require.True(t, p.Elsewhere())
	require.Empty(t, tree(t, mem, "/db"), "findLogs writes nothing")
	require.Empty(t, tree(t, mem, "/logs"))
	require.NoError(t, p.Begin())
	require.True(t, p.Marked())
	put(t, p.FS, "/db/000003.log", "three")
	require.NoError(t, p.Finish(), "there is nothing to finish")
	marks := tree(t, mem, "/logs")
	require.Equal(t, "three", marks["000003.log"])
	require.NoError(t, p.Close())

	for _, wanted := range []string{"", "/logs"} {
		p := find(t, mem, "/db", wanted)
		require.True(t, p.Elsewhere())
		require.NoError(t, p.Begin())
		require.Equal(t, marks, tree(t, mem, "/logs"), "again")
		require.Equal(t, "three", content(t, p.FS, "/db/000003.log"))
		require.NoError(t, p.Close())
	}

	p = find(t, mem, "/db", "/db")
	require.False(t, p.Elsewhere())
	require.True(t, p.Marked())
	require.NoError(t, p.Begin())
	require.ErrorContains(t, p.Finish(), "000003.log in /logs could not be removed")
	require.NoError(t, p.Close())
	p = find(t, mem, "/db", "/db")
	require.NoError(t, p.FS.Remove("/db/000003.log"))
	require.NoError(t, p.Finish())
	require.Empty(t, tree(t, mem, "/db"))
	require.Empty(t, tree(t, mem, "/logs"))
}

func TestDirectoriesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, dir, logs string
		prepare         func(t *testing.T, mem *vfs.Mem)
		want            string
	}{
		{name: "other logs", dir: "/db", logs: "/empty", want: "/empty, does not have the logs of the database in /db, which are in /logs; to move them"},
		{name: "no directory", dir: "/db", logs: "/none", want: "/none, does not have the logs"},
		{name: "other logs, and the recorded ones are lost", dir: "/db", logs: "/empty", want: "/empty does not have the logs of the database in /db, which were in /logs",
			prepare: func(t *testing.T, mem *vfs.Mem) { require.NoError(t, mem.Remove("/logs/LOGS")) }},
		{name: "another database's", dir: "/second", logs: "/logs", want: "/logs, has the logs of another database, that in /db"},
		{name: "logs of unknown origin", dir: "/second", logs: "/strays", want: "/strays, has logs already, for example 000007.log"},
		{name: "LOGDIR is missing", dir: "/db", logs: "/logs", want: "/logs, has logs already, for example 000003.log", prepare: func(t *testing.T, mem *vfs.Mem) {
			require.NoError(t, mem.Remove("/db/LOGDIR"))
		}},
		{name: "lost", dir: "/db", want: "/logs does not have the logs", prepare: func(t *testing.T, mem *vfs.Mem) {
			require.NoError(t, mem.Remove("/logs/LOGS"))
		}},
		{name: "a copy, recorded", dir: "/copy", want: "/copy is a copy of the database in /db, to which the logs in /logs belong", prepare: func(t *testing.T, mem *vfs.Mem) {
			copyTree(t, mem, "/db", mem, "/copy")
		}},
		{name: "a copy, given", dir: "/copy", logs: "/logs", want: "/copy is a copy of the database in /db", prepare: func(t *testing.T, mem *vfs.Mem) {
			copyTree(t, mem, "/db", mem, "/copy")
		}},
		{name: "the same directory", dir: "/db", want: "are the same", prepare: func(t *testing.T, mem *vfs.Mem) {
			require.NoError(t, mem.Remove("/db/LOGDIR"))
			put(t, mem, "/db/LOGDIR", content(t, mem, "/logs/LOGS")) // by hand, as the texts say
		}},
		{name: "a relative path", dir: "/db", want: "this is no mark of a log directory", prepare: func(t *testing.T, mem *vfs.Mem) {
			require.NoError(t, mem.Remove("/db/LOGDIR"))
			put(t, mem, "/db/LOGDIR", string(mark{"00112233445566778899aabbccddeeff", "logs/../logs"}.encode()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := moved(t)
			for _, dir := range []string{"/empty", "/second", "/strays"} {
				require.NoError(t, vfs.MkdirAllSynced(mem, dir))
			}
			put(t, mem, "/strays/000007.log", "seven")
			if c.prepare != nil {
				c.prepare(t, mem)
			}
			_, err := findLogs(mem, c.dir, c.logs)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Both directories may be moved, one at a time. A LOGDIR that is written by hand works too.
func TestDirectoriesMayMove(t *testing.T) {
	mem := moved(t)
	there := vfs.NewMem()
	copyTree(t, mem, "/db", there, "/new/db")
	copyTree(t, mem, "/logs", there, "/new/logs")
	_, err := findLogs(there, "/new/db", "")
	require.ErrorContains(t, err, "/logs does not have the logs")
	p := find(t, there, "/new/db", "/new/logs")
	require.Equal(t, "three", content(t, p.FS, "/new/db/000003.log"))
	require.NoError(t, p.Begin())
	require.NoError(t, p.Close())
	require.Equal(t, "three", content(t, find(t, there, "/new/db", "").FS, "/new/db/000003.log"))

	require.NoError(t, mem.Remove("/db/LOGDIR"))
	put(t, mem, "/db/LOGDIR", content(t, mem, "/logs/LOGS"))
	p = find(t, mem, "/db", "/logs")
	require.Equal(t, "three", content(t, p.FS, "/db/000003.log"))
	require.NoError(t, p.Begin())
	require.NoError(t, p.Close())
	find(t, mem, "/db", "")
}

// A copy of both directories is a database of its own.
func TestACopyWithItsLogs(t *testing.T) {
	mem := moved(t)
	copyTree(t, mem, "/db", mem, "/copy/db")
	copyTree(t, mem, "/logs", mem, "/copy/logs")
	p := find(t, mem, "/copy/db", "/copy/logs")
	require.NoError(t, p.Begin())
	require.NoError(t, p.FS.Remove("/copy/db/000003.log"))
	require.NoError(t, p.Close())
	for _, dir := range []string{"/copy/db", "/db"} {
		find(t, mem, dir, "")
	}
	require.Contains(t, tree(t, mem, "/logs"), "000003.log")
}

// A second path to a directory is that directory.
func TestLinkedDirectories(t *testing.T) {
	root := t.TempDir()
	dir, link, logs := filepath.Join(root, "db"), filepath.Join(root, "link"), filepath.Join(root, "logs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("symbolic links cannot be made here: %v", err)
	}
	require.False(t, find(t, vfs.OS, dir, link).Elsewhere())
	begin(t, vfs.OS, dir, logs)
	begin(t, vfs.OS, link, "")
	begin(t, vfs.OS, dir, "")
	p := find(t, vfs.OS, dir, link)
	require.False(t, p.Elsewhere(), "the way back")
	require.True(t, p.Found())
	require.NoError(t, p.Finish())
	require.Empty(t, tree(t, vfs.OS, dir))
	require.Empty(t, tree(t, vfs.OS, logs))
}

// One process at a time uses the logs, whatever path leads to the database.
func TestTheLogsAreLocked(t *testing.T) {
	mem, _ := twoDirs(t)
	begin(t, mem, "/db", "/logs")
	find(t, mem, "/db", "")
	p, err := findLogs(mem, "/db", "")
	require.NoError(t, err)
	require.ErrorIs(t, p.Lock(false), base.ErrLocked)
	require.NoError(t, p.Close())
}

// After a failure at any operation nothing is left, or the next Begin continues.
func TestAFailedBeginLeavesNoMarks(t *testing.T) {
	counted := wrap.NewFaulty(vfs.NewMem(), nil)
	require.NoError(t, vfs.MkdirAllSynced(counted, "/db"))
	from := counted.Ops()
	begin(t, counted, "/db", "/new/logs")
	failed := errors.New("failed")
	for n := from; n < counted.Ops(); n++ {
		for _, hook := range []func(wrap.Op) *wrap.Fault{wrap.FailNth(n, failed), wrap.FailFrom(n, failed)} {
			mem := vfs.NewMem()
			var at wrap.OpKind
			fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if op.Index == n {
					at = op.Kind
				}
				return hook(op)
			})
			require.NoError(t, vfs.MkdirAllSynced(fsys, "/db"))
			p, err := findLogs(fsys, "/db", "/new/logs")
			if err == nil {
				err = p.Begin()
				require.NoError(t, p.Close())
			}
			if err == nil {
				require.Contains(t, []wrap.OpKind{wrap.OpStat, wrap.OpClose}, at, "operation %d", n) // whether two paths are the same; reads
				continue
			}
			require.ErrorIs(t, err, failed, "operation %d", n)
			for _, after := range []*vfs.Mem{mem, mem.Crash()} {
				begin(t, after, "/db", "/new/logs")
				require.True(t, find(t, after.Crash(), "/db", "").Elsewhere(), "operation %d", n)
			}
		}
	}
}

func TestUndoRemovesWhatBeginWrote(t *testing.T) {
	mem, _ := twoDirs(t)
	p := find(t, mem, "/db", "/logs")
	require.NoError(t, p.Begin())
	require.NoError(t, p.Undo())
	require.NoError(t, p.Undo(), "again")
	require.Empty(t, tree(t, mem, "/db"))
	require.Empty(t, tree(t, mem, "/logs"))
	begin(t, mem, "/db", "/logs")
	p = find(t, mem, "/db", "/logs")
	require.NoError(t, p.Begin())
	require.NoError(t, p.Undo(), "the marks are older")
	require.Len(t, tree(t, mem, "/db"), 1)
}

func TestAbandonedLogsAreNotLookedFor(t *testing.T) {
	mem, _ := twoDirs(t)
	logs, err := recordedLogs(mem, "/db")
	require.NoError(t, err)
	require.Empty(t, logs)
	begin(t, mem, "/db", "/logs")
	require.NoError(t, mem.Remove("/logs/LOGS"))
	logs, err = recordedLogs(mem, "/db")
	require.NoError(t, err)
	require.Equal(t, "/logs", logs)
	require.NoError(t, abandonLogs(mem, "/db"))
	p := find(t, mem, "/db", "")
	require.False(t, p.Elsewhere())
	require.True(t, p.Marked(), "the MANIFEST may say otherwise")
	require.NoError(t, p.Finish())
	require.Empty(t, tree(t, mem, "/db"))
	require.False(t, find(t, mem, "/db", "").Marked())
}

func TestDestroyRemovesTheMarks(t *testing.T) {
	mem, _ := twoDirs(t)
	require.NoError(t, find(t, mem, "/db", "").Destroy())
	begin(t, mem, "/db", "/logs")
	require.NoError(t, find(t, mem, "/db", "").Destroy())
	require.Empty(t, tree(t, mem, "/db"))
	fixture.RequireNone(t, mem, "/logs")
	begin(t, mem, "/db", "/logs")
	require.NoError(t, logsHere(mem, "/db").Destroy())
	require.Empty(t, tree(t, mem, "/db"))
}
