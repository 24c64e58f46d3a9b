package crashtest

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
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

const bulkKeys = 300

// bulkChanges write fixture.Key(0) to fixture.Key(bulkKeys-1).
var bulkChanges = map[string]func(d *db.DB, tables []string) error{
	"an ingest":           ingest,
	"an ingest of copies": ingest,
	"a load": func(d *db.DB, _ []string) error {
		l, err := d.NewLoader()
		return commitKeys(l, err, 1, nil)
	},
	"a bulk transaction": func(d *db.DB, _ []string) error {
		b, err := d.NewBulkTransaction()
		return commitKeys(b, err, 7919, nil)
	},
	"a bulk transaction that is read": func(d *db.DB, _ []string) error {
		b, err := d.NewBulkTransaction()
		return commitKeys(b, err, 7919, func() (*db.Iterator, error) { return b.NewIterator(nil) })
	},
}

// commitKeys puts the keys, each by step after the one before it, around, and reads the first if read is not nil.
func commitKeys(l loading, err error, step int, read func() (*db.Iterator, error)) error {
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range bulkKeys {
		n := i * step % bulkKeys
		if err := l.Put(fixture.Key(n), fixture.Value(n)); err != nil {
			return err
		}
	}
	if read != nil {
		it, err := read()
		if err != nil {
			return err
		}
		defer it.Close() // it may be the one that met the failure
		if !it.First() {
			return it.Err()
		}
	}
	return l.Commit()
}

// Each operation of a bulk change fails once. Without an error all of it is there; after an error nothing is, unless the
// MANIFEST failed and the store is opened again. The error is that of the operation. No temporary file is left, and
// tables that were given are unchanged. The bug: the error of Ingest said that a file exists which it could not remove.
func TestAnErrorAtEveryOperationOfABulkChange(t *testing.T) {
	old, want := map[string]string{string(fixture.Key(15)): "old"}, map[string]string{}
	for i := range bulkKeys {
		want[string(fixture.Key(i))] = string(fixture.Value(i))
	}
	for name, change := range bulkChanges {
		t.Run(name, func(t *testing.T) {
			run := func(failAt uint64) (ops uint64) {
				mem := vfs.NewMem()
				var tables []string
				for i := range 4 {
					tables = append(tables, fmt.Sprint("in/", i))
					var entries []fixture.Entry
					for k := i * bulkKeys / 4; k < (i+1)*bulkKeys/4; k++ {
						entries = append(entries, fixture.Put(string(fixture.Key(k)), 3, string(fixture.Value(k))))
					}
					makeTable(t, mem, tables[i], entries...)
				}
				given := fixture.ReadDir(t, mem, "in")
				var armed atomic.Bool
				var at, failed atomic.Uint64
				fsys := vfs.FS(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if !armed.Load() || at.Add(1) != failAt {
						return nil
					}
					failed.Store(uint64(op.Kind))
					return &wrap.Fault{Err: wrap.ErrInjected}
				}))
				if name == "an ingest of copies" { // no file can be synced by its name
					fsys = struct{ vfs.FS }{fsys}
				}
				d := storetest.MustOpen(t, storetest.Options(fsys))
				require.NoError(t, d.Put(fixture.Key(15), []byte("old"), db.Sync))
				armed.Store(true)
				err := change(d, tables)
				armed.Store(false)
				kind := wrap.OpKind(failed.Load())
				says := []any{"operation %d, %v: %v", failAt, kind, err}
				shown := want
				if err != nil {
					require.ErrorIs(t, err, wrap.ErrInjected, says...)
					shown = old
				}
				require.Equal(t, shown, storetest.Contents(t, d), says...)
				if kind != wrap.OpRemove && kind != wrap.OpClose {
					require.Empty(t, fixture.Names(t, mem, base.FileTemp), says...)
				}
				_ = d.Close() // its error may be that of the failure
				require.Equal(t, given, fixture.ReadDir(t, mem, "in"))

				mem = mem.Kill()
				d = storetest.Open(t, storetest.Options(mem))
				if got := storetest.Contents(t, d); err == nil || len(got) != 1 {
					require.Equal(t, want, got, says...)
				} else {
					require.Equal(t, old, got, says...)
				}
				require.Empty(t, fixture.Names(t, mem, base.FileTemp), says...)
				storetest.RequireNoFaults(t, d)
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
	o := storetest.Options(fsys)
	d := storetest.Open(t, o)
	require.NoError(t, d.Put([]byte("k"), []byte("before"), db.Sync))
	require.NoError(t, d.Flush())
	l := storetest.NewLoader(t, d)
	require.NoError(t, l.Put([]byte("k"), []byte("loaded")))
	require.NoError(t, l.Put([]byte("l"), []byte("loaded")))
	failing.Store(true)
	require.ErrorIs(t, l.Commit(), db.ErrNoSpace)
	require.False(t, failing.Load())
	storetest.RequireValue(t, d, []byte("k"), []byte("before"))
	require.NoError(t, d.Put([]byte("k"), []byte("after"), db.Sync))
	storetest.RequireValue(t, d, []byte("k"), []byte("after"))

	// The system may have written the data that it failed to sync.
	after := storetest.Open(t, storetest.Options(fixture.CopyFS(t, mem)))
	require.Positive(t, after.Metrics().Total().Tables)
	storetest.RequireValue(t, after, []byte("l"), []byte("loaded"))
	storetest.RequireContent(t, after, "k", "after", "l", "loaded")
	require.NoError(t, after.Compact(t.Context(), nil, nil))
	storetest.RequireValue(t, after, []byte("k"), []byte("after"))

	// Once there is space, nothing of the load is left.
	require.NoError(t, d.Flush())
	fixture.Eventually(t, func() bool { return len(fixture.Names(t, mem, base.FileTable)) == 2 })
	storetest.RequireAbsent(t, d, []byte("l"))
	require.NoError(t, d.Close())
	d = storetest.Open(t, storetest.Options(mem))
	storetest.RequireValue(t, d, []byte("k"), []byte("after"))
	storetest.RequireAbsent(t, d, []byte("l"))
}
