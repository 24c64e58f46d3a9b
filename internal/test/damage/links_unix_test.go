//go:build unix

package damage_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// linkedDir is a database directory on the disk and a directory next to it that nothing may touch. The
// database's log is damaged in the middle, so that Salvage and Repair have something to put into lost/.
type linkedDir struct {
	dir, outside string
	names        map[base.FileKind]string // one of each kind
}

func newLinkedDir(t *testing.T) *linkedDir {
	root := t.TempDir()
	l := &linkedDir{dir: filepath.Join(root, "db"), outside: filepath.Join(root, "outside"), names: map[base.FileKind]string{}}
	require.NoError(t, os.Mkdir(l.outside, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(l.outside, "victim"), []byte("precious"), 0o600))
	d := storetest.OpenDir(t, l.dir, storetest.Options(nil))
	storetest.Fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	storetest.Fill(t, d, 100, 120)
	require.NoError(t, d.Close())
	names, err := os.ReadDir(l.dir)
	require.NoError(t, err)
	for _, e := range names {
		if kind, _, ok := base.ParseFileName(e.Name()); ok {
			l.names[kind] = e.Name()
		}
	}
	log := filepath.Join(l.dir, l.names[base.FileLog])
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(log, data, 0o600))
	return l
}

// move moves a file of the database outside and replaces it with a link.
func (l *linkedDir) move(t *testing.T, kind base.FileKind) {
	require.NoError(t, os.Rename(filepath.Join(l.dir, l.names[kind]), filepath.Join(l.outside, "moved")))
	l.link(t, l.names[kind], "moved")
}

// link makes a link to a name outside.
func (l *linkedDir) link(t *testing.T, name, target string) {
	require.NoError(t, os.Symlink(filepath.Join(l.outside, target), filepath.Join(l.dir, name)))
}

// files returns the modes, times and contents of the files outside.
func (l *linkedDir) files(t *testing.T) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(l.outside, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		files[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			files[path] += info.ModTime().String() + string(data)
		}
		return nil
	}))
	return files
}

// linkedActions are the operations on a directory.
var linkedActions = map[string]func(dir string) error{
	"salvage": func(dir string) error {
		o := storetest.Options(nil)
		o.Salvage = db.SalvageAll
		return openWriteClose(dir, o)
	},
	"read": func(dir string) error {
		o := storetest.Options(nil)
		o.Salvage, o.ReadOnly, o.FS = db.SalvageAll, true, vfs.OS
		return openWriteClose(dir, o)
	},
	"repair":  func(dir string) error { return db.Repair(dir, storetest.Options(nil)) },
	"destroy": func(dir string) error { return db.Destroy(dir, storetest.Options(nil)) },
}

func openWriteClose(dir string, o *db.Options) error {
	d, err := db.Open(dir, o)
	if err != nil {
		return err
	}
	for i := range 300 {
		if err == nil && !o.ReadOnly {
			err = d.Put(fixture.Key(i), fixture.Value(i), db.NoSync)
		}
	}
	if err == nil {
		_, err = d.Get(fixture.Key(1))
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// A store that is opened for writing, or with the file system vfs.OS, does not follow a symbolic link under any name
// that it reads, writes, replaces or removes. The target outside is neither written nor truncated nor removed, and
// nothing new appears there. The bugs: Repair and Salvage kept files wherever a link named lost led, and a link to a
// table was reported only when one of its keys was looked up.
func TestSymbolicLinksAreNotFollowed(t *testing.T) {
	moved := func(kind base.FileKind) func(*testing.T, *linkedDir) {
		return func(t *testing.T, l *linkedDir) { l.move(t, kind) }
	}
	linked := func(kind base.FileKind, from, to uint64, target string) func(*testing.T, *linkedDir) {
		return func(t *testing.T, l *linkedDir) {
			for num := from; num < to; num++ {
				l.link(t, base.FileName(kind, num), target)
			}
		}
	}
	const future = 20 // above all numbers in use
	refusedByAll := []string{"salvage", "read", "repair"}
	for name, c := range map[string]struct {
		plant   func(*testing.T, *linkedDir)
		refused []string // the actions that must fail; the others must succeed
	}{
		"LOCK":                      {moved(base.FileLock), []string{"salvage", "read", "repair", "destroy"}},
		"CURRENT":                   {moved(base.FileCurrent), refusedByAll},
		"a MANIFEST":                {moved(base.FileManifest), refusedByAll},
		"a table":                   {moved(base.FileTable), refusedByAll},
		"a log":                     {moved(base.FileLog), refusedByAll},
		"CLOSED":                    {moved(base.FileClosed), refusedByAll},
		"CURRENT's temporary file":  {linked(base.FileTemp, future, future+40, "victim"), refusedByAll},
		"a dangling temporary file": {linked(base.FileTemp, future, future+40, "none"), refusedByAll},
		"names of future tables":    {linked(base.FileTable, future, future+40, "none"), refusedByAll},
		"names of future logs":      {linked(base.FileLog, future, future+40, "victim"), refusedByAll},
		"names of future MANIFESTs": {linked(base.FileManifest, future, future+40, "victim"), refusedByAll},
		"LOG, which is not written": {func(t *testing.T, l *linkedDir) { l.link(t, "LOG", "victim") }, nil},
		"lost":                      {func(t *testing.T, l *linkedDir) { l.link(t, manifest.LostDir, ".") }, []string{"salvage", "repair"}},
		"lost, dangling":            {func(t *testing.T, l *linkedDir) { l.link(t, manifest.LostDir, "none") }, []string{"salvage", "repair"}},
		"names in lost":             {plantInLost, nil},
		"other names are ignored":   {func(t *testing.T, l *linkedDir) { l.link(t, "notes", "victim") }, nil},
	} {
		for action, act := range linkedActions {
			t.Run(name+"/"+action, func(t *testing.T) {
				l := newLinkedDir(t)
				c.plant(t, l)
				before := l.files(t)
				err := act(l.dir)
				if slices.Contains(c.refused, action) {
					require.ErrorContains(t, err, "symbolic link")
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, before, l.files(t))
			})
		}
	}
}

// What only reads follows links to plain files, and changes nothing there. What writes says what to do. The bug: no
// verb could read a database whose tables were links, as a store of packages or a tool for large files makes them.
func TestReadersAcceptLinksToFiles(t *testing.T) {
	for name, open := range map[string]func(dir string) (*db.DB, error){
		"read-only": func(dir string) (*db.DB, error) {
			return db.Open(dir, &db.Options{ReadOnly: true, Salvage: db.SalvageAll})
		},
		"follower": func(dir string) (*db.DB, error) { return db.OpenFollower(dir, &db.Options{Salvage: db.SalvageAll}) },
	} {
		l := newLinkedDir(t)
		require.NoError(t, db.Repair(l.dir, storetest.Options(nil))) // its log is damaged
		files, err := os.ReadDir(l.dir)
		require.NoError(t, err)
		for _, file := range files {
			if !file.IsDir() {
				require.NoError(t, os.Rename(filepath.Join(l.dir, file.Name()), filepath.Join(l.outside, file.Name())))
				l.link(t, file.Name(), file.Name())
			}
		}
		before := l.files(t)
		d, err := open(l.dir)
		require.NoError(t, err, name)
		if name == "read-only" {
			_, err := db.Open(l.outside, nil)
			require.ErrorIs(t, err, db.ErrLocked, "through the link")
			storetest.CheckpointTo(t, d, filepath.Join(l.outside, "..", "copy"))
			requireNoLinks(t, filepath.Join(l.outside, "..", "copy"))
		}
		count := 0
		keys, failed := d.All(nil)
		for range keys {
			count++
		}
		require.NoError(t, failed())
		require.GreaterOrEqual(t, count, 100)
		storetest.RequireNoFaults(t, d)
		require.ErrorIs(t, d.Put([]byte("a"), nil, nil), db.ErrReadOnly)
		_, err = d.DiskUsage()
		require.NoError(t, err)
		if name == "follower" {
			require.NoError(t, d.Refresh(t.Context()))
		}
		require.NoError(t, d.Close())
		_, err = db.Open(l.dir, nil)
		for _, err := range []error{err, db.Repair(l.dir, nil)} {
			require.ErrorIs(t, err, vfs.ErrSymlink)
			require.ErrorContains(t, err, "replace the link with a copy of the file that it leads to, or open the database with Options.ReadOnly")
			require.ErrorContains(t, err, l.dir)
		}
		require.Equal(t, before, l.files(t))
	}
}

func requireNoLinks(t *testing.T, dir string) {
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.Zero(t, file.Type()&fs.ModeSymlink, file.Name())
	}
}

// A reader refuses a link that leads to no plain file, and does not make what it leads to.
func TestReadersRefuseOtherLinks(t *testing.T) {
	for _, kind := range []base.FileKind{base.FileCurrent, base.FileManifest, base.FileTable, base.FileLock} {
		for _, target := range []string{"none", "."} {
			l := newLinkedDir(t)
			require.NoError(t, os.Remove(filepath.Join(l.dir, l.names[kind])))
			l.link(t, l.names[kind], target)
			before := l.files(t)
			_, err := db.Open(l.dir, &db.Options{ReadOnly: true, Salvage: db.SalvageAll})
			require.ErrorContains(t, err, "must lead to a plain file")
			require.ErrorContains(t, err, l.names[kind])
			require.Equal(t, before, l.files(t))
		}
	}
}

// plantInLost makes links under the names by which a salvage or repair would keep files.
func plantInLost(t *testing.T, l *linkedDir) {
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, manifest.LostDir), 0o700))
	for name := range maps.Values(l.names) {
		for i, suffix := range []string{"", ".from-0", ".1", ".from-0.1"} {
			l.link(t, filepath.Join(manifest.LostDir, name+suffix), []string{"victim", "none"}[i%2])
		}
	}
}

// A repair that finds a link where it would keep files fails before it changes anything.
func TestARepairThatCannotUseLostChangesNothing(t *testing.T) {
	l := newLinkedDir(t)
	l.link(t, manifest.LostDir, ".")
	list := func() (names []string) {
		entries, err := os.ReadDir(l.dir)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	before := list()
	require.ErrorContains(t, db.Repair(l.dir, storetest.Options(nil)), "symbolic link")
	require.Equal(t, before, list())
}

// Something else has the name of the directory of the changes: a named pipe, or a link to the changes of another
// database. Opening and following do not wait, the database works without changes, and the other one stays as it is.
func TestSomethingElseInPlaceOfTheChanges(t *testing.T) {
	o := &db.Options{Changes: db.ChangeRetention{Bytes: 1 << 30}}
	other := filepath.Join(t.TempDir(), "other")
	d := storetest.OpenDir(t, other, o)
	require.NoError(t, d.SetCursor("reader", 0))
	require.NoError(t, d.Close())
	cursors := filepath.Join(other, "changes", "CURSORS")
	before, err := os.ReadFile(cursors)
	require.NoError(t, err)
	for name, put := range map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":       func(path string) error { return os.Symlink(filepath.Join(other, "changes"), path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			d := storetest.OpenDir(t, dir, nil)
			require.NoError(t, d.Put([]byte("a"), nil, db.Sync))
			require.NoError(t, d.Close())
			require.NoError(t, put(filepath.Join(dir, "changes")))
			f, err := db.OpenFollower(dir, nil)
			require.NoError(t, err)
			_ = fixture.FirstError(f.Changes(context.Background(), 0, nil))
			require.NoError(t, f.Close())
			d, err = db.Open(dir, o)
			if err == nil {
				require.Error(t, fixture.FirstError(d.Changes(context.Background(), 0, nil)))
				_ = d.DropCursor("reader")
				require.NoError(t, d.Put([]byte("b"), nil, db.Sync))
				require.NoError(t, d.Close())
			}
			after, err := os.ReadFile(cursors)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
		})
	}
}
