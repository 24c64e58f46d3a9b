package db_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

func TestOpenCreatesADatabaseUnlessOptionsForbidIt(t *testing.T) {
	mem := vfs.NewMem()
	_, err := db.Open("db", &db.Options{FS: mem, ErrorIfMissing: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "ErrorIfMissing")
	_, err = db.Open("db", &db.Options{FS: mem, ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "ReadOnly")
	_, err = mem.Stat("db")
	require.ErrorIs(t, err, fs.ErrNotExist, "a refused Open leaves no files")

	d := mustOpen(t, &db.Options{FS: mem})
	require.True(t, d.OpenReport().Created)
	require.NoError(t, d.Close())
	_, err = db.Open("db", &db.Options{FS: mem, ErrorIfExists: true})
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "ErrorIfExists")
	d = mustOpen(t, &db.Options{FS: mem, ErrorIfMissing: true})
	require.False(t, d.OpenReport().Created)
	require.NoError(t, d.Close())
}

func TestADirectoryWithoutADatabaseStaysUnchanged(t *testing.T) {
	for name, o := range map[string]db.Options{"read-only": {ReadOnly: true}, "not to be created": {ErrorIfMissing: true}} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o.FS = mem
			require.NoError(t, mem.MkdirAll("home"))
			writeFile(t, mem, filepath.Join("home", "notes.txt"), []byte("x"))
			_, err := db.Open("home", &o)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, "there is no database in home")
			names, err := mem.List("home")
			require.NoError(t, err)
			require.Equal(t, []string{"notes.txt"}, names)

			writeFile(t, mem, filepath.Join("home", "000004.ldb"), []byte("x"))
			_, err = db.Open("home", &o)
			require.ErrorIs(t, err, db.ErrCorruption, "the remains of a database")
			names, err = mem.List("home")
			require.NoError(t, err)
			require.Equal(t, []string{"000004.ldb", "notes.txt"}, names)
		})
	}
}

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

func TestOpenRefusesAForeignComparer(t *testing.T) {
	mem := vfs.NewMem()
	reverse := &db.Comparer{Name: "test.Reverse", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}
	d := mustOpen(t, &db.Options{FS: mem, Comparer: reverse})
	require.NoError(t, d.Put([]byte("a"), nil, nil))
	require.NoError(t, d.Put([]byte("b"), nil, nil))
	require.NoError(t, d.Close())
	_, err := db.Open("db", &db.Options{FS: mem})
	require.ErrorContains(t, err, `"test.Reverse"`)
	require.ErrorContains(t, err, "Options.Comparer")
	d = openTest(t, &db.Options{FS: mem, Comparer: reverse})
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.True(t, it.First())
	require.Equal(t, "b", string(it.Key()))
	require.NoError(t, it.Close())
}

func TestBuiltInFiltersAreRefusedIfEqualKeysMayDiffer(t *testing.T) {
	folding := &db.Comparer{
		Name:         "test.FoldCase",
		Compare:      func(a, b []byte) int { return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b)) },
		InexactEqual: true,
	}
	_, err := db.Open("db", &db.Options{FS: vfs.NewMem(), Comparer: folding})
	require.ErrorContains(t, err, "filter.None")
	d := openTest(t, &db.Options{FS: vfs.NewMem(), Comparer: folding, Filters: db.FilterOptions{Policy: filter.None}})
	require.NoError(t, d.Put([]byte("Key"), []byte("v"), nil))
	require.NoError(t, d.Flush())
	requireValue(t, d, []byte("kEY"), []byte("v"))
}

func TestInvalidFileModesAreRefused(t *testing.T) {
	for _, mode := range []fs.FileMode{0o400, 0o200, 0o066, 0o1600, fs.ModeSetuid | 0o600, fs.ModeDir | 0o700} {
		o := &db.Options{FS: vfs.NewMem(), FileMode: mode}
		require.ErrorContains(t, o.Validate(), "Options.FileMode", "%o", mode)
		_, err := db.Open("db", o)
		require.ErrorContains(t, err, "Options.FileMode", "%o", mode)
	}
	for _, mode := range []fs.FileMode{0, 0o600, 0o640, 0o644, 0o666, 0o777} {
		require.NoError(t, (&db.Options{FileMode: mode}).Validate())
	}
}

func TestMissingAndShortTablesAreReportedByOpen(t *testing.T) {
	for _, name := range []string{"missing", "short"} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			d := mustOpen(t, testOptions(mem))
			fill(t, d, 0, 500)
			settle(t, d)
			require.NoError(t, d.Close())
			table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
			data := readFile(t, mem, table)
			require.NoError(t, mem.Remove(table))
			if name == "short" {
				writeFile(t, mem, table, data[:len(data)-1])
			}
			_, err := db.Open("db", testOptions(mem))
			require.ErrorIs(t, err, db.ErrCorruption)
			require.ErrorContains(t, err, filepath.Base(table))
		})
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	fill(t, d, 0, 300)
	settle(t, d)
	fill(t, d, 300, 600) // some of it only in the log
	require.NoError(t, d.Close())
	before, err := mem.List("db")
	require.NoError(t, err)

	o := testOptions(mem)
	o.ReadOnly = true
	d = mustOpen(t, o)
	for i := range 600 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.Len(t, contentsIn(t, d), 600)
	requireReadOnly(t, d)
	require.NoError(t, d.Close())
	after, err := mem.List("db")
	require.NoError(t, err)
	require.Equal(t, before, after)
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

func TestDestroyRemovesTheDatabaseAndNothingElse(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, db.Destroy("db", &db.Options{FS: mem}), "a missing database is no error")
	d := mustOpen(t, testOptions(mem))
	fill(t, d, 0, 500)
	require.NoError(t, d.Close())
	writeFile(t, mem, filepath.Join("db", "notes.txt"), []byte("mine"))
	require.NoError(t, db.Destroy("db", &db.Options{FS: mem}))
	names, err := mem.List("db")
	require.NoError(t, err)
	require.Equal(t, []string{"notes.txt"}, names)
	require.NoError(t, mem.Remove(filepath.Join("db", "notes.txt")))
	require.NoError(t, db.Destroy("db", &db.Options{FS: mem}))
	_, err = mem.Stat("db")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A crash may cut off the last edit of a MANIFEST, but not if files that this edit made obsolete are already gone.
func TestALostEditThatWasInForceIsCorruption(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	require.NoError(t, d.Put([]byte("k"), []byte("v"), nil))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	require.NoError(t, mem.Remove("db/CLOSED")) // it vouches for the whole MANIFEST
	path := filepath.Join("db", namesOf(t, mem, base.FileManifest)[0])
	whole := readFile(t, mem, path)
	writeFile(t, mem, path, whole[:len(whole)-1])
	_, err := db.Open("db", testOptions(mem))
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, ".log")
	writeFile(t, mem, path, whole)
	require.NoError(t, mustOpen(t, testOptions(mem)).Close())
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
