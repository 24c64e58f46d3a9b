package db

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
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
			d, err := Open(dir, &Options{FS: fsys})
			require.NoError(t, err)
			require.NoError(t, d.Close())

			// Others try to open just before each operation of Destroy, from the first removal on.
			var writers []*DB
			tries, removing := 0, false
			others := wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
				removing = removing || op.Kind == wrap.OpRemove
				if !removing {
					return nil
				}
				tries++
				if d, err := Open(dir, &Options{FS: fsys}); err == nil {
					writers = append(writers, d)
				}
				return nil
			})
			require.NoError(t, Destroy(dir, &Options{FS: others}))
			require.Greater(t, tries, 3)
			if d, err := Open(dir, &Options{FS: fsys}); err == nil {
				writers = append(writers, d)
			}
			require.Len(t, writers, 1, "never two at a time")
			require.NoError(t, writers[0].Put([]byte("k"), []byte("v"), Sync))
			require.NoError(t, writers[0].Close())
		})
	}
}

// The bug: a directory that Open or Repair refused was left with an empty file LOCK.
func TestARefusedDirectoryIsLeftWithoutALOCK(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, mem vfs.FS)
		opts   Options
	}{
		{"CURRENT is missing", func(t *testing.T, mem vfs.FS) { require.NoError(t, mem.Remove("db/CURRENT")) }, Options{}},
		{"CURRENT is damaged", func(t *testing.T, mem vfs.FS) { writeFile(t, mem, "db/CURRENT", []byte("MANIF")) }, Options{}},
		{"another comparer", func(*testing.T, vfs.FS) {}, Options{Comparer: &Comparer{Name: "other", Compare: BytewiseComparer.Compare}}},
		{"the database exists", func(*testing.T, vfs.FS) {}, Options{ErrorIfExists: true}},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/read-only %v", c.name, readOnly), func(t *testing.T) {
				mem := vfs.NewMem()
				d := mustOpen(t, testOptions(mem))
				fill(t, d, 0, 100)
				require.NoError(t, d.Close())
				require.NoError(t, mem.Remove("db/LOCK"))
				c.damage(t, mem)
				before := imageOf(t, mem)
				o := c.opts
				o.FS, o.ReadOnly = mem, readOnly
				_, err := Open("db", &o)
				require.Error(t, err)
				require.Equal(t, before, imageOf(t, mem))
				_, err = mem.Stat("db/LOCK")
				require.ErrorIs(t, err, fs.ErrNotExist)
				if c.opts.Comparer != nil && !readOnly {
					require.ErrorContains(t, Repair("db", &o), "comparer")
					require.Equal(t, before, imageOf(t, mem))
					_, err = mem.Stat("db/LOCK")
					require.ErrorIs(t, err, fs.ErrNotExist)
				}
				writeFile(t, mem, "db/LOCK", nil)
				_, err = Open("db", &o)
				require.Error(t, err)
				_, err = mem.Stat("db/LOCK")
				require.NoError(t, err, "a LOCK that was there stays")
			})
		}
	}
}

// A refused reader must not remove the file LOCK that it made if another reader has locked it, too.
// Otherwise writers could open the directory next to that reader.
func TestARefusedReaderLeavesTheLOCKOfAnother(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	require.NoError(t, d.Close())
	require.NoError(t, mem.Remove("db/LOCK"))
	other := &Comparer{Name: "other", Compare: BytewiseComparer.Compare}
	var reader *DB
	refused := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && filepath.Base(op.Name) == base.CurrentName && reader == nil {
			reader = mustOpen(t, &Options{FS: mem, ReadOnly: true}) // it shares the first reader's lock
		}
		return nil
	})
	_, err := Open("db", &Options{FS: refused, ReadOnly: true, Comparer: other})
	require.ErrorContains(t, err, "comparer")
	_, err = Open("db", &Options{FS: mem})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, reader.Close())
}
