package dbdir

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
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

func TestADirectoryOfADatabaseIsRefused(t *testing.T) {
	for _, name := range []string{"CURRENT", "MANIFEST-000001", "000005.ldb", "000005.sst", "CLOSED", "LOGDIR"} {
		mem, _ := twoDirs(t)
		put(t, mem, filepath.Join("/logs", name), "")
		_, err := findLogs(mem, "/db", "/logs")
		require.ErrorContains(t, err, "/logs, has a database of its own, for example its file "+name)
		require.False(t, isLost(err))
	}
	mem, _ := twoDirs(t)
	for _, name := range []string{"LOCK", "notes.txt"} {
		put(t, mem, filepath.Join("/logs", name), "")
	}
	find(t, mem, "/db", "/logs")
}

func TestRefuseADirectoryOfLogs(t *testing.T) {
	mem := moved(t)
	require.NoError(t, refuseLogs(mem, "/db"))
	require.NoError(t, refuseLogs(mem, "/none"))
	require.ErrorContains(t, refuseLogs(mem, "/logs"), "sievedb: /logs has the logs of the database in /db")
	require.ErrorIs(t, refuseLogs(failing(mem, "/logs", syscall.EIO), "/logs"), syscall.EIO)
	require.NoError(t, mem.Remove("/logs/LOGS"))
	put(t, mem, "/logs/LOGS", "damaged")
	require.ErrorContains(t, refuseLogs(mem, "/logs"), "sievedb: /logs has the logs of the database in an unknown directory")
	put(t, mem, "/logs/CURRENT", "")
	require.NoError(t, refuseLogs(mem, "/logs"))
}

func TestUnreadableLogsAreNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, mem *vfs.Mem) vfs.FS
		lost    bool
	}{
		"no LOGS": {lost: true, prepare: func(t *testing.T, mem *vfs.Mem) vfs.FS {
			require.NoError(t, mem.Remove("/logs/LOGS"))
			return mem
		}},
		"no directory": {lost: true, prepare: func(_ *testing.T, mem *vfs.Mem) vfs.FS { return failing(mem, "/logs", fs.ErrNotExist) }},
		"another identity": {lost: true, prepare: func(t *testing.T, mem *vfs.Mem) vfs.FS {
			require.NoError(t, mark{"00112233445566778899aabbccddeeff", "/db"}.write(mem, "/logs/LOGS"))
			return mem
		}},
		"damaged LOGDIR": {lost: true, prepare: func(t *testing.T, mem *vfs.Mem) vfs.FS {
			require.NoError(t, mem.Remove("/db/LOGDIR"))
			put(t, mem, "/db/LOGDIR", "damaged")
			return mem
		}},
		"unreadable":        {prepare: func(_ *testing.T, mem *vfs.Mem) vfs.FS { return failing(mem, "/logs", syscall.EIO) }},
		"unreadable LOGDIR": {prepare: func(_ *testing.T, mem *vfs.Mem) vfs.FS { return failing(mem, "/db", syscall.EIO) }},
		"damaged LOGS": {prepare: func(t *testing.T, mem *vfs.Mem) vfs.FS {
			require.NoError(t, mem.Remove("/logs/LOGS"))
			put(t, mem, "/logs/LOGS", "damaged")
			return mem
		}},
	} {
		_, err := findLogs(c.prepare(t, moved(t)), "/db", "/db")
		require.ErrorContains(t, err, "sievedb: ", name)
		require.Equal(t, c.lost, isLost(err), name)
	}
}

// Another directory was named, and the recorded one has the logs.
func TestLogsOfTheRecordedDirectoryAreNotLost(t *testing.T) {
	mem := moved(t)
	for _, wanted := range []string{"/none", "/second"} {
		_, err := findLogs(mem, "/db", wanted)
		require.ErrorContains(t, err, "which are in /logs; to move them, open the database with its own directory as Options.LogDir")
		require.False(t, isLost(err))
	}
	require.NoError(t, mem.Remove("/logs/LOGS"))
	_, err := findLogs(mem, "/db", "/none")
	require.True(t, isLost(err))
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

// Undo leaves a LOGS of an earlier opening, and a LOGDIR that records abandoned logs.
func TestUndoKeepsEarlierMarks(t *testing.T) {
	mem, _ := twoDirs(t)
	require.NoError(t, mark{"00112233445566778899aabbccddeeff", "/db"}.write(mem, "/logs/LOGS"))
	require.NoError(t, abandonLogs(mem, "/db"))
	before := [2]map[string]string{tree(t, mem, "/db"), tree(t, mem, "/logs")}
	p := find(t, mem, "/db", "/logs")
	require.NoError(t, p.Begin())
	require.NotEqual(t, before[0], tree(t, mem, "/db"))
	require.NoError(t, p.Undo())
	require.True(t, p.Marked())
	require.Equal(t, before, [2]map[string]string{tree(t, mem, "/db"), tree(t, mem, "/logs")})
}

// After a Begin that fails, no directory is left that it made.
func TestAFailedBeginLeavesNoDirectories(t *testing.T) {
	for _, kind := range []wrap.OpKind{wrap.OpLock, wrap.OpWrite, wrap.OpMkdirAll, wrap.OpList} {
		mem := vfs.NewMem()
		require.NoError(t, vfs.MkdirAllSynced(mem, "/db"))
		armed := false
		fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if !armed || op.Kind != kind {
				return nil
			}
			armed = kind != wrap.OpList // removeDirs lists as well
			return &wrap.Fault{Err: syscall.EIO}
		})
		p, err := findLogs(fsys, "/db", "/new/logs")
		require.NoError(t, err)
		armed = true
		require.ErrorIs(t, p.Begin(), syscall.EIO)
		fixture.RequireNone(t, mem, "/new")
		require.NoError(t, p.Close())
	}
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

// LOGS names the directory of the last opening. Only it, or a directory that was named, may remove the logs.
func TestLogsOfAnotherDirectoryAreNotDestroyed(t *testing.T) {
	mem := moved(t)
	p, err := findLogs(mem, "/db", "")
	require.NoError(t, err)
	require.NoError(t, p.RefuseToDestroy())
	for _, copied := range []string{"/new", "/copy"} {
		copyTree(t, mem, "/db", mem, copied)
	}
	require.NoError(t, mem.Remove("/db/LOGDIR"))
	for _, wanted := range []string{"", "/copy"} {
		p, err := findLogs(mem, "/copy", wanted)
		require.NoError(t, err)
		require.ErrorContains(t, p.RefuseToDestroy(), "the logs in /logs belong to a database in /db; if /copy is that database and was moved, pass /logs")
	}
	p, err = findLogs(mem, "/copy", "/logs")
	require.NoError(t, err)
	require.NoError(t, p.RefuseToDestroy())
	begin(t, mem, "/new", "")
	require.NoError(t, find(t, mem, "/new", "").RefuseToDestroy())
	_, err = findLogs(mem, "/copy", "")
	require.True(t, isLost(err), "the logs belong to /new")
}

// abandonLogs works without a LOGDIR that can be decoded, but not without one that can be read.
func TestAbandonWithoutAMark(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		mem, _ := twoDirs(t)
		if damaged {
			put(t, mem, "/db/LOGDIR", "damaged")
		}
		require.NoError(t, abandonLogs(mem, "/db"))
		p := find(t, mem, "/db", "")
		require.True(t, p.Marked())
		require.False(t, p.Found())
	}
	mem := moved(t)
	require.ErrorIs(t, abandonLogs(failing(mem, "/db", syscall.EIO), "/db"), syscall.EIO)
	require.True(t, find(t, mem, "/db", "").Found())
}
