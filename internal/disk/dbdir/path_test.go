package dbdir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: Open("relative") kept using the relative path. After a change of the working directory, two
// databases of that name overwrote each other's files.
func TestAChangeOfTheWorkingDirectoryChangesNothing(t *testing.T) {
	homes := []string{t.TempDir(), t.TempDir()}
	value := func(i, home int) []byte { return fmt.Appendf(nil, "%d of home %d", i, home) }
	var stores []*db.DB
	for _, home := range homes {
		t.Chdir(home)
		o := storetest.Options(vfs.OS)
		d := storetest.MustOpen(t, o)
		stores = append(stores, d)
	}
	for i := range 2000 {
		for home, d := range stores {
			require.NoError(t, d.Put(fixture.Key(i), value(i, home), db.NoSync))
		}
	}
	for home, d := range stores {
		t.Chdir(homes[1-home])
		require.NoError(t, d.Flush())
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		storetest.RequireNoFaults(t, d)
		require.NoError(t, d.Close())
	}
	for home, path := range homes {
		t.Chdir(path)
		d := storetest.MustOpen(t, storetest.Options(vfs.OS))
		require.True(t, d.OpenReport().ClosedCleanly)
		for i := range 2000 {
			storetest.RequireValue(t, d, fixture.Key(i), value(i, home))
		}
		require.NoError(t, d.Close())
		report := storetest.RepairWith(t, "db", storetest.Options(vfs.OS))
		require.True(t, report.Healthy)
		require.True(t, filepath.IsAbs(report.Dir))
	}
	require.NoError(t, db.Destroy("db", nil))
	require.NoDirExists(t, filepath.Join(homes[1], "db"))
	require.DirExists(t, filepath.Join(homes[0], "db"))
}

// The bug: an empty path was reported as "list : no such file or directory".
func TestAnEmptyPathIsReported(t *testing.T) {
	for _, fsys := range []vfs.FS{nil, vfs.NewMem()} {
		o := &db.Options{FS: fsys}
		_, err := db.Open("", o)
		for _, err := range []error{err, db.Repair("", o), db.Destroy("", o)} {
			require.ErrorContains(t, err, "the path is empty; pass the path of the database directory")
		}
	}
}

// The bug: Open through a symbolic link synced the directory of the link, but not the one that names
// the database's directory. A power loss could remove the new database.
func TestTheNameOfALinkedDirectoryIsMadeDurable(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "disk", "data"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(home, "app"), 0o700))
	link := filepath.Join(home, "app", "db")
	if err := os.Symlink(filepath.Join("..", "disk", "data"), link); err != nil {
		t.Skipf("symbolic links cannot be made here: %v", err)
	}
	var synced []fs.FileInfo
	fsys := wrap.NewFaulty(vfs.OS, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpSyncDir {
			info, err := os.Stat(op.Name)
			require.NoError(t, err)
			synced = append(synced, info)
		}
		return nil
	})
	d, err := db.Open(link, &db.Options{FS: fsys})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for _, dir := range []string{"disk", "app", "disk/data"} {
		want, err := os.Stat(filepath.Join(home, dir))
		require.NoError(t, err)
		same := func(info fs.FileInfo) bool { return os.SameFile(info, want) }
		require.True(t, slices.ContainsFunc(synced, same), dir)
	}
}
