package db_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

func TestOpenRefusesAFileInsteadOfADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	_, err := db.Open(path, nil)
	require.ErrorContains(t, err, "is a file; a database is a directory")
}

func TestOpenRefusesADirectoryInUse(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"in memory": vfs.NewMem(), "on disk": nil} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			d := openDir(t, dir, &db.Options{FS: fsys})
			_, err := db.Open(dir, &db.Options{FS: fsys})
			require.ErrorIs(t, err, db.ErrLocked)
			_, err = db.Open(dir, &db.Options{FS: fsys, ReadOnly: true})
			require.ErrorIs(t, err, db.ErrLocked)
			require.ErrorIs(t, db.Destroy(dir, &db.Options{FS: fsys}), db.ErrLocked)
			require.NoError(t, d.Close())
			readers := [2]*db.DB{}
			for i := range readers {
				readers[i], err = db.Open(dir, &db.Options{FS: fsys, ReadOnly: true})
				require.NoError(t, err, "readers share the lock")
			}
			_, err = db.Open(dir, &db.Options{FS: fsys})
			require.ErrorIs(t, err, db.ErrLocked)
			for _, r := range readers {
				require.NoError(t, r.Close())
			}
			require.NoError(t, db.Destroy(dir, &db.Options{FS: fsys}))
		})
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		mem := vfs.NewMem()
		d := mustOpen(t, testOptions(mem))
		fill(t, d, 0, 500)
		require.NoError(t, d.Close())
		_, err := db.Open("db", &db.Options{FS: mem, ErrorIfExists: true})
		require.Error(t, err)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

// A MANIFEST that is cut exactly after an edit looks whole. The bug: the store opened in the state
// of that edit, without later tables, and replayed the newest log on top of it.
func TestAManifestCutAfterAnEditIsCorruption(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, testOptions(mem))
	require.NoError(t, d.Put([]byte("a"), []byte("1"), nil))
	require.NoError(t, d.Flush())
	require.NoError(t, strayFilesWhenIdle(d, mem)) // the old log is removed
	require.NoError(t, d.Put([]byte("b"), []byte("2"), nil))
	killed := copyFS(t, mem)
	path := filepath.Join("db", namesOf(t, killed, base.FileManifest)[0])
	manifest := readFile(t, killed, path)
	first := 7 + int(binary.LittleEndian.Uint16(manifest[4:]))
	require.Less(t, first, len(manifest))
	writeFile(t, killed, path, manifest[:first])
	_, err := db.Open("db", testOptions(killed))
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "a later edit is lost")
}

func TestCloseNamesOpenIteratorsAndSnapshots(t *testing.T) {
	o := &db.Options{FS: vfs.NewMem(), TrackOpen: true}
	d := mustOpen(t, o)
	s := d.NewSnapshot()
	it, err := s.NewIterator(nil)
	require.NoError(t, err)
	other, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	m := d.Metrics()
	require.Equal(t, 1, m.OpenIterators)
	require.Equal(t, 1, m.OpenSnapshots)
	err = d.Close()
	require.ErrorContains(t, err, "1 iterator, 1 snapshot open: ")
	require.ErrorContains(t, err, "iterator opened at ")
	require.ErrorContains(t, err, "snapshot opened at ")
	require.Equal(t, 2, strings.Count(err.Error(), "open_test.go:"), "%v", err)
	require.False(t, it.Next())
	require.Equal(t, db.ErrClosed, it.Err())
	require.NoError(t, it.Close())
	require.NoError(t, it.Close())
	_, err = s.Get([]byte("k"))
	require.Equal(t, db.ErrClosed, err)
	require.NoError(t, s.Close())
	require.Equal(t, db.ErrClosed, s.Close())
}
