package dbdir_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
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
			d, err := db.Open(dir, &db.Options{FS: fsys})
			require.NoError(t, err)
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
				_, err := db.Open("db", &o)
				require.Error(t, err)
				require.Equal(t, before, fixture.Image(t, mem))
				fixture.RequireNone(t, mem, "db/LOCK")
				if c.opts.Comparer != nil && !readOnly {
					require.ErrorContains(t, db.Repair("db", &o), "comparer")
					require.Equal(t, before, fixture.Image(t, mem))
					fixture.RequireNone(t, mem, "db/LOCK")
				}
				fixture.WriteFile(t, mem, "db/LOCK", nil)
				_, err = db.Open("db", &o)
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
	_, err = db.Open("db", &db.Options{FS: mem})
	require.ErrorIs(t, err, db.ErrLocked)
	require.NoError(t, reader.Close())
}
