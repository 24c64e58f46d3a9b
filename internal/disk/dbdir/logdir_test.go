package dbdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
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
	p := find(t, mem, "/db", "/db/")
	require.False(t, p.Elsewhere() || p.Marked())
	require.NoError(t, p.Begin())
	require.NoError(t, p.Finish())
	p = find(t, mem, "/db", "/logs")
	require.True(t, p.Elsewhere())
	require.Empty(t, tree(t, mem, "/db"), "findLogs writes nothing")
	require.Empty(t, tree(t, mem, "/logs"))
	require.NoError(t, p.Begin())
	put(t, p.FS, "/db/000003.log", "three")
	require.NoError(t, p.Finish(), "there is nothing to finish")
	other, err := findLogs(mem, "/db", "")
	require.NoError(t, err)
	require.ErrorIs(t, other.Lock(false), base.ErrLocked, "one process at a time uses the logs")
	require.NoError(t, other.Close())
	marks := tree(t, mem, "/logs")
	require.NoError(t, p.Close())

	begin(t, mem, "/db", "")
	require.Equal(t, marks, tree(t, mem, "/logs"), "again")
	require.Equal(t, "three", marks["000003.log"])

	p = find(t, mem, "/db", "/db")
	require.False(t, p.Elsewhere())
	require.NoError(t, p.Begin())
	require.ErrorContains(t, p.Finish(), "000003.log in /logs could not be removed")
	require.NoError(t, p.Close())
	p = find(t, mem, "/db", "/db")
	require.NoError(t, p.FS.Remove("/db/000003.log"))
	require.NoError(t, p.Finish())
	require.Empty(t, tree(t, mem, "/db"))
	require.Empty(t, tree(t, mem, "/logs"))
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

// Undo removes what Begin wrote, and leaves what an earlier opening or a repair did.
func TestUndoKeepsEarlierMarks(t *testing.T) {
	for name, earlier := range map[string]func(mem *vfs.Mem){
		"none":  func(*vfs.Mem) {},
		"begun": func(mem *vfs.Mem) { begin(t, mem, "/db", "/logs") },
		"abandoned": func(mem *vfs.Mem) {
			require.NoError(t, mark{"00112233445566778899aabbccddeeff", "/db"}.write(mem, "/logs/LOGS"))
			require.NoError(t, abandonLogs(mem, "/db"))
		},
	} {
		mem, _ := twoDirs(t)
		earlier(mem)
		before := [2]map[string]string{tree(t, mem, "/db"), tree(t, mem, "/logs")}
		delete(before[1], base.LockName)
		p := find(t, mem, "/db", "/logs")
		require.NoError(t, p.Begin())
		require.True(t, p.Marked())
		require.NoError(t, p.Undo())
		require.NoError(t, p.Undo(), "again")
		require.NoError(t, p.Close())
		require.Equal(t, name != "none", p.Marked())
		after := [2]map[string]string{tree(t, mem, "/db"), tree(t, mem, "/logs")}
		delete(after[1], base.LockName)
		require.Equal(t, before, after, name)
	}
}
