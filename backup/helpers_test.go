package backup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

var background = context.Background()

// smallOptions are those of a store with several levels of few keys.
func smallOptions(fsys vfs.FS) *db.Options {
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 16 << 10},
		Tables:     db.TableOptions{Size: 8 << 10, BlockSize: 512, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 32 << 10},
	}
}

func open(t testing.TB, dir string, o *db.Options) *db.DB {
	t.Helper()
	d := result.Of(db.Open(dir, o))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// newRepo returns an empty repository in memory, and a database.
func newRepo(t testing.TB) (*backuptest.Mem, *backup.Repository, *db.DB) {
	t.Helper()
	storage := backuptest.NewMem()
	return storage, backup.Open(storage), open(t, "db", smallOptions(vfs.NewMem()))
}

func create(t testing.TB, r *backup.Repository, d *db.DB, o *backup.CreateOptions) backup.Info {
	t.Helper()
	info := result.Of(r.Create(background, d, o))(t)
	return info
}

func put(t testing.TB, d *db.DB, key, value string) {
	t.Helper()
	require.NoError(t, d.Put([]byte(key), []byte(value), db.NoSync))
}

func fill(t testing.TB, d *db.DB, from, to int, value string) {
	t.Helper()
	for i := from; i < to; i++ {
		put(t, d, fmt.Sprintf("key%06d", i), fmt.Sprintf("%s%06d%090d", value, i, i))
	}
}

// ingest writes a table next to a database, and adds it.
func ingest(t testing.TB, d *db.DB, name string, entries ...fixture.Entry) {
	t.Helper()
	fixture.WriteFile(t, d.Options().FS, name, fixture.Table(t, entries...))
	result.Of(d.Ingest(background, []string{name}, nil))(t)
}

// contents returns all keys and values.
func contents(t testing.TB, d *db.DB) map[string]string {
	t.Helper()
	got := result.Of(entries(d))(t)
	return got
}

func entries(d *db.DB) (map[string]string, error) {
	got := map[string]string{}
	all, failed := d.All(nil)
	for key, value := range all {
		got[string(key)] = string(value)
	}
	return got, failed()
}

func restore(t testing.TB, r *backup.Repository, id, dir string, fsys vfs.FS) {
	t.Helper()
	result.Of(r.Restore(background, id, dir, &backup.RestoreOptions{FS: fsys}))(t)
}

// restored restores a backup and returns what the database contains.
func restored(t testing.TB, r *backup.Repository, id string) map[string]string {
	t.Helper()
	mem := vfs.NewMem()
	restore(t, r, id, "restored", mem)
	d := open(t, "restored", &db.Options{FS: mem.Crash(), ErrorIfMissing: true})
	report := result.Of(d.Check(background))(t)
	require.Empty(t, report.Faults)
	got := contents(t, d)
	require.NoError(t, d.Close())
	return got
}

// beforeNth returns a storage that calls do before the nth operation of that kind whose name begins with prefix.
func beforeNth(s backup.Storage, kind backuptest.OpKind, prefix string, nth int, do func() error) *backuptest.Hooked {
	seen := 0
	return &backuptest.Hooked{Storage: s, Before: func(op backuptest.Op) error {
		if op.Kind == kind && strings.HasPrefix(op.Name, prefix) {
			if seen++; seen == nth {
				return do()
			}
		}
		return nil
	}}
}

// once is beforeNth for the first operation. The test fails if there is none.
func once(t testing.TB, s backup.Storage, kind backuptest.OpKind, prefix string, do func() error) *backuptest.Hooked {
	done := false
	t.Cleanup(func() { require.True(t, done, "no %s of %s", kind, prefix) })
	return beforeNth(s, kind, prefix, 1, func() error {
		done = true
		return do()
	})
}

// keepLast prunes all but the newest backups.
func keepLast(t testing.TB, r *backup.Repository, n int) backup.PruneReport {
	t.Helper()
	report := result.Of(r.Prune(background, backup.Policy{KeepLast: n}))(t)
	return report
}

func list(t testing.TB, r *backup.Repository) []backup.Info {
	t.Helper()
	all := result.Of(r.List(background))(t)
	return all
}

// oneFault returns what Verify finds, which must be one fault.
func oneFault(t testing.TB, r *backup.Repository, what ...any) backup.Fault {
	t.Helper()
	report := result.Of(r.Verify(background))(t)
	require.Len(t, report.Faults, 1, what...)
	return report.Faults[0]
}

func verifyClean(t testing.TB, r *backup.Repository) backup.VerifyReport {
	t.Helper()
	report := result.Of(r.Verify(background))(t)
	require.Empty(t, report.Faults)
	return report
}
