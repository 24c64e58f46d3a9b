package backup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
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
	d, err := db.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func create(t testing.TB, r *backup.Repository, d *db.DB, o *backup.CreateOptions) backup.Info {
	t.Helper()
	info, err := r.Create(background, d, o)
	require.NoError(t, err)
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

// contents returns all keys and values.
func contents(t testing.TB, d *db.DB) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, failed := d.All(nil)
	for key, value := range entries {
		got[string(key)] = string(value)
	}
	require.NoError(t, failed())
	return got
}

// restored restores a backup and returns what the database contains.
func restored(t testing.TB, r *backup.Repository, id string) map[string]string {
	t.Helper()
	mem := vfs.NewMem()
	_, err := r.Restore(background, id, "restored", &backup.RestoreOptions{FS: mem})
	require.NoError(t, err)
	d := open(t, "restored", &db.Options{FS: mem.Crash(), ErrorIfMissing: true})
	report, err := d.Check(background)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	got := contents(t, d)
	require.NoError(t, d.Close())
	return got
}

func verifyClean(t testing.TB, r *backup.Repository) backup.VerifyReport {
	t.Helper()
	report, err := r.Verify(background)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	return report
}
