package dbdir

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

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
	info, err := f.Stat("/db/000003.log")
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Size())

	require.NoError(t, f.SyncDir("/db"))
	require.Equal(t, "three", content(t, mem.Crash(), "/logs/000003.log"), "SyncDir syncs both directories")
	require.NoError(t, f.Remove("/db/000003.log"))
	_, err = f.Lstat("/db/000003.log")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Logs that were in the database's directory before are read, listed once, and removed there.
func TestEarlierLogsStayWhereTheyAre(t *testing.T) {
	mem, f := twoDirs(t)
	put(t, mem, "/db/000007.log", "seven")
	require.Equal(t, "seven", content(t, f, "/db/000007.log"))
	_, err := f.Create("/db/000007.log")
	require.ErrorIs(t, err, fs.ErrExist)
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
	log, err := vfs.CreateLog(f, "/db/000001.log")
	require.NoError(t, err)
	require.Implements(t, (*vfs.LogFile)(nil), log)
	_, err = log.Write([]byte("x"))
	require.NoError(t, err)
	info, err := mem.Stat("/logs/000001.log")
	require.NoError(t, err)
	require.EqualValues(t, 64<<10, info.Size())
	_, err = vfs.CreateLog(f, "/db/000001.log")
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, log.Close())
}
