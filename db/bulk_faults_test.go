package db_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

const bulkKeys = 300

// bulkChanges write testKey(0) to testKey(bulkKeys-1).
var bulkChanges = map[string]func(d *db.DB, tables []string) error{
	"an ingest": func(d *db.DB, tables []string) error { return second(d.Ingest(background, tables, nil)) },
	"a load": func(d *db.DB, _ []string) error {
		l, err := d.NewLoader()
		if err != nil {
			return err
		}
		if err = putBulkKeys(l, 1); err == nil {
			err = l.Commit()
		}
		_ = l.Close()
		return err
	},
	"a bulk transaction": func(d *db.DB, _ []string) error {
		b, err := d.NewBulkTransaction()
		if err != nil {
			return err
		}
		if err = putBulkKeys(b, 7919); err == nil {
			err = b.Commit()
		}
		_ = b.Close()
		return err
	},
	"a bulk transaction that is read": func(d *db.DB, _ []string) error {
		b, err := d.NewBulkTransaction()
		if err != nil {
			return err
		}
		defer b.Close()
		if err = putBulkKeys(b, 7919); err != nil {
			return err
		}
		it, err := b.NewIterator(nil)
		if err != nil {
			return err
		}
		defer it.Close() // it may be the one that met the failure
		if !it.First() {
			return it.Err()
		}
		return b.Commit()
	},
}

// putBulkKeys puts the keys, each by step after the one before it, around.
func putBulkKeys(l loading, step int) error {
	for i := range bulkKeys {
		n := i * step % bulkKeys
		if err := l.Put(testKey(n), testValue(n)); err != nil {
			return err
		}
	}
	return nil
}

// Each operation of a bulk change fails once. Without an error all of it is there; after an error nothing is, unless the
// MANIFEST failed and the store is opened again. No temporary file is left, and tables that were given are unchanged.
func TestAnErrorAtEveryOperationOfABulkChange(t *testing.T) {
	old, want := map[string]string{string(testKey(15)): "old"}, map[string]string{}
	for i := range bulkKeys {
		want[string(testKey(i))] = string(testValue(i))
	}
	for name, change := range bulkChanges {
		t.Run(name, func(t *testing.T) {
			run := func(failAt uint64) (ops uint64) {
				mem := vfs.NewMem()
				var tables []string
				for i := range 4 {
					tables = append(tables, fmt.Sprint("in/", i))
					require.NoError(t, tableOfKeys(mem, tables[i], i*bulkKeys/4, (i+1)*bulkKeys/4, 3))
				}
				given := readDir(t, mem, "in")
				var armed atomic.Bool
				var at, failed atomic.Uint64
				d := mustOpen(t, testOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if !armed.Load() || at.Add(1) != failAt {
						return nil
					}
					failed.Store(uint64(op.Kind))
					return &wrap.Fault{Err: wrap.ErrInjected}
				})))
				require.NoError(t, d.Put(testKey(15), []byte("old"), db.Sync))
				armed.Store(true)
				err := change(d, tables)
				armed.Store(false)
				kind := wrap.OpKind(failed.Load())
				says := []any{"operation %d, %v: %v", failAt, kind, err}
				shown := want
				if err != nil {
					require.NotZero(t, failAt)
					shown = old
				}
				require.Equal(t, shown, contentsIn(t, d), says...)
				if kind != wrap.OpRemove && kind != wrap.OpClose {
					require.Empty(t, namesOf(t, mem, base.FileTemp), says...)
				}
				_ = d.Close() // its error may be that of the failure
				require.Equal(t, given, readDir(t, mem, "in"))

				mem = mem.Kill()
				d = openTest(t, testOptions(mem))
				if got := contentsIn(t, d); err == nil || len(got) != 1 {
					require.Equal(t, want, got, says...)
				} else {
					require.Equal(t, old, got, says...)
				}
				require.Empty(t, namesOf(t, mem, base.FileTemp), says...)
				requireNoFaults(t, d)
				require.NoError(t, d.Close())
				return at.Load()
			}
			ops := run(0)
			require.Greater(t, ops, uint64(20))
			for n := uint64(1); n <= ops; n++ {
				run(n)
			}
		})
	}
}

// A load whose edit may be in force although its Commit failed must not hide writes that were made after the failure.
func TestWritesAfterAFailedLoadAreKept(t *testing.T) {
	mem := vfs.NewMem()
	var failing atomic.Bool
	fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		kind, _, ok := base.ParseFileName(strings.TrimPrefix(op.Name, "db/"))
		if ok && kind == base.FileManifest && op.Kind == wrap.OpSync && failing.CompareAndSwap(true, false) {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	o := testOptions(fsys)
	d := openTest(t, o)
	require.NoError(t, d.Put([]byte("k"), []byte("before"), db.Sync))
	require.NoError(t, d.Flush())
	l := newLoader(t, d)
	require.NoError(t, l.Put([]byte("k"), []byte("loaded")))
	require.NoError(t, l.Put([]byte("l"), []byte("loaded")))
	failing.Store(true)
	require.ErrorIs(t, l.Commit(), db.ErrNoSpace)
	require.False(t, failing.Load())
	requireValue(t, d, []byte("k"), []byte("before"))
	require.NoError(t, d.Put([]byte("k"), []byte("after"), db.Sync))
	requireValue(t, d, []byte("k"), []byte("after"))

	// The system may have written the data that it failed to sync.
	after := openTest(t, testOptions(copyFS(t, mem)))
	require.Positive(t, after.Metrics().Total().Tables)
	requireValue(t, after, []byte("l"), []byte("loaded"))
	requireContent(t, after, "k", "after", "l", "loaded")
	require.NoError(t, after.Compact(t.Context(), nil, nil))
	requireValue(t, after, []byte("k"), []byte("after"))

	// Once there is space, nothing of the load is left.
	require.NoError(t, d.Flush())
	eventually(t, func() bool { return len(namesOf(t, mem, base.FileTable)) == 2 })
	requireAbsent(t, d, []byte("l"))
	require.NoError(t, d.Close())
	d = openTest(t, testOptions(mem))
	requireValue(t, d, []byte("k"), []byte("after"))
	requireAbsent(t, d, []byte("l"))
}
