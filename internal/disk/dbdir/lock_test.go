package dbdir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: Destroy released the lock and then removed the file LOCK. A store that was opened in between
// wrote under a lock that no other store could see.
func TestDestroyHoldsTheLockUntilItsFileIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot remove an open file, so LOCK cannot be removed while it is locked")
	}
	for name, fsys := range map[string]vfs.FS{"in memory": vfs.NewMem(), "on disk": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			d := result.Of(db.Open(dir, &db.Options{FS: fsys}))(t)
			require.NoError(t, d.Close())

			// Others try to open just before each operation of Destroy, from the first removal on.
			var writers []*db.DB
			tries, removing := 0, false
			others := wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
				removing = removing || op.Kind == wrap.OpRemove
				if !removing {
					return nil
				}
				tries++
				if d, err := db.Open(dir, &db.Options{FS: fsys}); err == nil {
					writers = append(writers, d)
				}
				return nil
			})
			require.NoError(t, db.Destroy(dir, &db.Options{FS: others}))
			require.Greater(t, tries, 3)
			if d, err := db.Open(dir, &db.Options{FS: fsys}); err == nil {
				writers = append(writers, d)
			}
			require.Len(t, writers, 1, "never two at a time")
			require.NoError(t, writers[0].Put([]byte("k"), []byte("v"), db.Sync))
			require.NoError(t, writers[0].Close())
		})
	}
}

// The bug: a directory that Open or Repair refused was left with an empty file LOCK.
func TestARefusedDirectoryIsLeftWithoutALOCK(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, mem vfs.FS)
		opts   db.Options
	}{
		{"CURRENT is missing", func(t *testing.T, mem vfs.FS) { require.NoError(t, mem.Remove("db/CURRENT")) }, db.Options{}},
		{"CURRENT is damaged", func(t *testing.T, mem vfs.FS) { fixture.WriteFile(t, mem, "db/CURRENT", []byte("MANIF")) }, db.Options{}},
		{"another comparer", func(*testing.T, vfs.FS) {}, db.Options{Comparer: &db.Comparer{Name: "other", Compare: db.BytewiseComparer.Compare}}},
		{"the database exists", func(*testing.T, vfs.FS) {}, db.Options{ErrorIfExists: true}},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/read-only %v", c.name, readOnly), func(t *testing.T) {
				mem := vfs.NewMem()
				d := storetest.MustOpen(t, storetest.Options(mem))
				storetest.Fill(t, d, 0, 100)
				require.NoError(t, d.Close())
				require.NoError(t, mem.Remove("db/LOCK"))
				c.damage(t, mem)
				before := fixture.Image(t, mem)
				o := c.opts
				o.FS, o.ReadOnly = mem, readOnly
				require.Error(t, result.Err(db.Open("db", &o)))
				require.Equal(t, before, fixture.Image(t, mem))
				fixture.RequireNone(t, mem, "db/LOCK")
				if c.opts.Comparer != nil && !readOnly {
					require.ErrorContains(t, db.Repair("db", &o), "comparer")
					require.Equal(t, before, fixture.Image(t, mem))
					fixture.RequireNone(t, mem, "db/LOCK")
				}
				fixture.WriteFile(t, mem, "db/LOCK", nil)
				require.Error(t, result.Err(db.Open("db", &o)))
				require.NoError(t, result.Err(mem.Stat("db/LOCK")), "a LOCK that was there stays")
			})
		}
	}
}

// A refused reader must not remove the file LOCK that it made if another reader has locked it, too.
// Otherwise writers could open the directory next to that reader.
func TestARefusedReaderLeavesTheLOCKOfAnother(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	require.NoError(t, d.Close())
	require.NoError(t, mem.Remove("db/LOCK"))
	other := &db.Comparer{Name: "other", Compare: db.BytewiseComparer.Compare}
	var reader *db.DB
	refused := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && filepath.Base(op.Name) == base.CurrentName && reader == nil {
			reader = storetest.MustOpen(t, &db.Options{FS: mem, ReadOnly: true}) // it shares the first reader's lock
		}
		return nil
	})
	_, err := db.Open("db", &db.Options{FS: refused, ReadOnly: true, Comparer: other})
	require.ErrorContains(t, err, "comparer")
	require.ErrorIs(t, result.Err(db.Open("db", &db.Options{FS: mem})), db.ErrLocked)
	require.NoError(t, reader.Close())
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

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
			info := result.Of(os.Stat(op.Name))(t)
			synced = append(synced, info)
		}
		return nil
	})
	d := result.Of(db.Open(link, &db.Options{FS: fsys}))(t)
	require.NoError(t, d.Close())
	for _, dir := range []string{"disk", "app", "disk/data"} {
		want := result.Of(os.Stat(filepath.Join(home, dir)))(t)
		same := func(info fs.FileInfo) bool { return os.SameFile(info, want) }
		require.True(t, slices.ContainsFunc(synced, same), dir)
	}
}

// Every file of the directory counts once, where it belongs.
func TestDiskUsageCountsEachFileOnce(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	storetest.Fill(t, d, 0, 2000)
	storetest.Settle(t, d)
	snapshot, err := d.NewIterator(nil) // keeps the tables of this moment
	require.NoError(t, err)
	storetest.Fill(t, d, 0, 500)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.Fill(t, d, 0, 3)
	require.NoError(t, d.SyncLog())
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.LostDir)))
	fixture.WriteFile(t, mem, filepath.Join("db", base.LostDir, "000007.ldb"), make([]byte, 777))
	fixture.WriteFile(t, mem, filepath.Join("db", "notes.txt"), make([]byte, 55))

	storetest.WaitUntilIdle(d)
	var u report.DiskUsage
	fixture.Eventually(t, func() bool { // files are removed in the background
		u = result.Of(d.DiskUsage())(t)
		return u.Total == sizeOfFiles(t, mem)+777
	})
	require.Equal(t, d.Metrics().Total().Bytes, u.Tables)
	require.Positive(t, u.UnlistedTables, "of the iterator")
	require.Positive(t, u.Logs)
	require.Positive(t, u.Manifest)
	require.EqualValues(t, 777, u.Lost)
	require.Greater(t, u.Other, uint64(55))
	require.Equal(t, u.Total, u.Tables+u.UnlistedTables+u.Logs+u.Manifest+u.Lost+u.Other)

	require.NoError(t, snapshot.Close())
	fixture.Eventually(t, func() bool {
		u = result.Of(d.DiskUsage())(t)
		return u.UnlistedTables == 0
	})
}

// sizeOfFiles adds up the sizes of the files in the database's directory, without that of lost files.
func sizeOfFiles(t *testing.T, mem *vfs.Mem) (total uint64) {
	t.Helper()
	names := fixture.List(t, mem, "db")
	for _, name := range names {
		info, err := mem.Stat(filepath.Join("db", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		require.NoError(t, err)
		if !info.IsDir() {
			total += uint64(info.Size())
		}
	}
	return total
}

// A program may have put a file where Repair makes a directory.
func TestDiskUsageWithAFileNamedLost(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	before := result.Of(d.DiskUsage())(t)
	fixture.WriteFile(t, mem, filepath.Join("db", base.LostDir), make([]byte, 5))
	after := result.Of(d.DiskUsage())(t)
	require.Equal(t, before.Other+5, after.Other)
	require.Zero(t, after.Lost)
}

func TestDiskUsageReturnsErrorsOfTheFileSystem(t *testing.T) {
	mem := vfs.NewMem()
	failing := false
	fail := wrap.OpKind(0)
	o := storetest.Options(wrap.NewFaulty(mem, wrap.FailIf(nil, func(op wrap.Op) bool {
		return failing && op.Kind == fail
	})))
	d := storetest.Open(t, o)
	for _, fail = range []wrap.OpKind{wrap.OpList, wrap.OpStat} {
		failing = true
		_, err := d.DiskUsage()
		failing = false
		require.ErrorIs(t, err, wrap.ErrInjected, "%v", fail)
		require.ErrorContains(t, err, "sievedb: DiskUsage: ")
	}
}

// The bug: a DeleteRange used the reserve and failed all the same. The user made room, the next DeleteRange succeeded
// without a reserve, and none was made again before the next Open.
func TestTheReserveIsMadeAgainAfterALaterDeleteRange(t *testing.T) {
	var full atomic.Bool
	mem := vfs.NewMem()
	o := storetest.Options(wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool {
		return full.Load() && op.Kind == wrap.OpWrite
	})))
	o.Limits.DiskReserve = 1000
	d := storetest.Open(t, o)
	there := func() bool {
		_, err := mem.Stat(d.Dir() + "/" + dbdir.ReserveName)
		return err == nil
	}
	require.NoError(t, d.Put(fixture.Key(1), fixture.Value(1), nil))
	require.NoError(t, d.Flush())
	require.True(t, there())
	full.Store(true)
	require.ErrorIs(t, d.DeleteRange(t.Context(), nil, nil, nil), db.ErrNoSpace)
	require.False(t, there())
	full.Store(false)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.NoError(t, d.Put(fixture.Key(2), fixture.Value(2), nil))
	require.NoError(t, d.Flush())
	fixture.Eventually(t, there) // in the background
}
