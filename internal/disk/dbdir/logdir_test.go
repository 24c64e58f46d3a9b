package dbdir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

func find(t *testing.T, fsys vfs.FS, dir, wanted string) *LogDir {
	t.Helper()
	p := result.Of(findLogs(fsys, dir, wanted))(t)
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
	other := result.Of(findLogs(mem, "/db", ""))(t)
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

func FuzzDecodeMark(f *testing.F) {
	f.Add(mark{strings.Repeat("0f", 16), "/a \"dir\"\n"}.encode())
	f.Add(mark{strings.Repeat("0f", 16), ""}.encode())
	f.Add([]byte(markFirstLine + "\nid \nother \"\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, ok := decodeMark(data); ok {
			require.Equal(t, string(data), string(m.encode()))
			require.Len(t, m.id, 32)
		}
	})
}

// twoDirs returns a file system in memory with the directories db and logs.
func twoDirs(t *testing.T) (*vfs.Mem, *logFS) {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, "/db"))
	require.NoError(t, vfs.MkdirAllSynced(mem, "/logs"))
	return mem, active(mem, "/db", "/logs")
}

func active(fsys vfs.FS, dir, logs string) *logFS {
	f := &logFS{FS: fsys, dir: dir, logs: logs}
	f.active.Store(true)
	return f
}

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	fixture.WriteFile(t, fsys, name, []byte(content))
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	return string(fixture.ReadFile(t, fsys, name))
}

// tree returns the files of a directory with their contents.
func tree(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	names := fixture.List(t, fsys, dir)
	files := map[string]string{}
	for _, name := range names {
		files[name] = content(t, fsys, filepath.Join(dir, name))
	}
	return files
}

func TestConformance(t *testing.T) {
	for name, fresh := range map[string]func(t *testing.T) (vfs.FS, string){
		"OS": func(t *testing.T) (vfs.FS, string) { return vfs.OS, t.TempDir() },
		"Mem": func(t *testing.T) (vfs.FS, string) {
			m := vfs.NewMem()
			require.NoError(t, m.MkdirAll("/some/db"))
			return m, "/some/db"
		},
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
				inner, dir := fresh(t)
				logs := filepath.Join(filepath.Dir(dir), "logs of "+filepath.Base(dir))
				require.NoError(t, inner.MkdirAll(logs))
				return active(inner, dir, logs), dir
			})
		})
	}
}

func TestLogsAreInTheirDirectory(t *testing.T) {
	mem, f := twoDirs(t)
	put(t, f, "/db/000003.log", "three")
	put(t, f, "/db/000004.ldb", "four")
	put(t, f, "/db/MANIFEST-000002", "two")
	put(t, f, "/db/3.log", "not a log's name")
	require.Equal(t, map[string]string{"000004.ldb": "four", "MANIFEST-000002": "two", "3.log": "not a log's name"}, tree(t, mem, "/db"))
	require.Equal(t, map[string]string{"000003.log": "three"}, tree(t, mem, "/logs"))
	put(t, mem, "/logs/notes.txt", "of another program")
	names := fixture.List(t, f, "/db")
	require.Equal(t, []string{"000003.log", "000004.ldb", "3.log", "MANIFEST-000002"}, names)
	require.Equal(t, "three", content(t, f, "/db/000003.log"))
	info := result.Of(f.Stat("/db/000003.log"))(t)
	require.EqualValues(t, 5, info.Size())

	require.NoError(t, f.SyncDir("/db"))
	require.Equal(t, "three", content(t, mem.Crash(), "/logs/000003.log"), "SyncDir syncs both directories")
	require.NoError(t, f.Remove("/db/000003.log"))
	require.ErrorIs(t, result.Err(f.Lstat("/db/000003.log")), fs.ErrNotExist)
}

// Logs that were in the database's directory before are read, listed once, and removed there.
func TestEarlierLogsStayWhereTheyAre(t *testing.T) {
	mem, f := twoDirs(t)
	put(t, mem, "/db/000007.log", "seven")
	require.Equal(t, "seven", content(t, f, "/db/000007.log"))
	require.ErrorIs(t, result.Err(f.Create("/db/000007.log")), fs.ErrExist)
	names := fixture.List(t, f, "/db")
	require.Equal(t, []string{"000007.log"}, names)
	require.NoError(t, f.Rename("/db/000007.log", "/db/lost-000007.log"))
	require.Equal(t, "seven", content(t, mem, "/db/lost-000007.log"))
	put(t, mem, "/db/000008.log", "eight")
	require.NoError(t, f.Remove("/db/000008.log"))
	require.Len(t, tree(t, mem, "/db"), 1)
}

// A file that moves to the other directory is whole under its new name, or not there; the original is removed last.
func TestMovesBetweenTheDirectoriesAreWhole(t *testing.T) {
	for _, c := range []struct{ old, new, at, to string }{
		{"/db/000003.log", "/db/lost/000003.log", "/logs/000003.log", "/db/lost/000003.log"},
		{"/db/000009.dbtmp", "/db/000004.log", "/db/000009.dbtmp", "/logs/000004.log"},
	} {
		big := string(make([]byte, 600<<10))
		start := func() (*vfs.Mem, vfs.FS) {
			mem, _ := twoDirs(t)
			require.NoError(t, vfs.MkdirAllSynced(mem, "/db/lost"))
			put(t, mem, c.at, big)
			require.NoError(t, mem.SyncDir(filepath.Dir(c.at)))
			return mem, mem
		}
		_, fsys := start()
		counted := wrap.NewFaulty(fsys, nil)
		require.NoError(t, active(counted, "/db", "/logs").Rename(c.old, c.new))
		require.Equal(t, big, content(t, fsys, c.to))
		fixture.RequireNone(t, fsys, c.at)
		for n := range counted.Ops() {
			mem, fsys := start()
			f := active(wrap.NewFaulty(fsys, wrap.FailFrom(n, nil)), "/db", "/logs")
			require.Error(t, f.Rename(c.old, c.new))
			for _, after := range []*vfs.Mem{mem, mem.Crash()} {
				_, atErr := after.Stat(c.at)
				if _, err := after.Stat(c.to); err == nil {
					require.Equal(t, big, content(t, after, c.to), "operation %d", n)
				} else {
					require.NoError(t, atErr)
				}
				if atErr == nil {
					require.Equal(t, big, content(t, after, c.at), "operation %d", n)
				}
			}
		}
	}
}

// A store whose logs are elsewhere appended to them by a system call each.
func TestLogsElsewhereAreLogFiles(t *testing.T) {
	mem, f := twoDirs(t)
	log := result.Of(vfs.CreateLog(f, "/db/000001.log"))(t)
	require.Implements(t, (*vfs.LogFile)(nil), log)
	require.NoError(t, result.Err(log.Write([]byte("x"))))
	info := result.Of(mem.Stat("/logs/000001.log"))(t)
	require.EqualValues(t, 64<<10, info.Size())
	require.ErrorIs(t, result.Err(vfs.CreateLog(f, "/db/000001.log")), fs.ErrExist)
	require.NoError(t, log.Close())
}
