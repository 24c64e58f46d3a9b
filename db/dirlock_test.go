package db

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/vfs/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Destroy released the lock and then removed the file LOCK: who opened the directory
// in between wrote without a lock that anyone else could see.
func TestDestroyHoldsTheLockUntilItsFileIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be removed there, and so the lock's cannot go while somebody holds it")
	}
	for name, fsys := range map[string]vfs.FS{"in memory": vfs.NewMem(), "on disk": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			d, err := Open(dir, &Options{FS: fsys})
			require.NoError(t, err)
			require.NoError(t, d.Close())

			// Others come just before each operation of Destroy from the first removal on.
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

// A directory that Open or Repair refused was left with an empty file LOCK in it.
func TestARefusedDirectoryIsLeftWithoutALOCK(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, mem vfs.FS)
		opts   Options
	}{
		{"CURRENT is missing", func(t *testing.T, mem vfs.FS) { require.NoError(t, mem.Remove("db/CURRENT")) }, Options{}},
		{"CURRENT is damaged", func(t *testing.T, mem vfs.FS) { writeFile(t, mem, "db/CURRENT", []byte("MANIF")) }, Options{}},
		{"another comparer", func(*testing.T, vfs.FS) {}, Options{Comparer: &Comparer{Name: "other", Compare: BytewiseComparer.Compare}}},
		{"it is there already", func(*testing.T, vfs.FS) {}, Options{ErrorIfExists: true}},
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
				require.NoError(t, err, "one that was there stays")
			})
		}
	}
}

// A reader that is refused would let writers in beside another reader, if it removed
// the file LOCK that it made and that the other has locked too.
func TestARefusedReaderLeavesTheLOCKOfAnother(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, testOptions(mem))
	require.NoError(t, d.Close())
	require.NoError(t, mem.Remove("db/LOCK"))
	other := &Comparer{Name: "other", Compare: BytewiseComparer.Compare}
	var reader *DB
	refused := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && filepath.Base(op.Name) == base.CurrentName && reader == nil {
			reader = mustOpen(t, &Options{FS: mem, ReadOnly: true}) // it shares the lock of the first
		}
		return nil
	})
	_, err := Open("db", &Options{FS: refused, ReadOnly: true, Comparer: other})
	require.ErrorContains(t, err, "comparer")
	_, err = Open("db", &Options{FS: mem})
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, reader.Close())
}
