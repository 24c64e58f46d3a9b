package blob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// buckets opens a bucket of each kind.
func buckets(t *testing.T) map[string]*blob.Bucket {
	file, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{Metadata: fileblob.MetadataDontWrite, NoTempDir: true})
	require.NoError(t, err)
	all := map[string]*blob.Bucket{
		"memory": memblob.OpenBucket(nil), "files": file, "a prefix": blob.PrefixedBucket(memblob.OpenBucket(nil), "repo/"),
	}
	t.Cleanup(func() {
		for _, b := range all {
			require.NoError(t, b.Close())
		}
	})
	return all
}

func TestBucketsConform(t *testing.T) {
	for name, bucket := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			run := backuptest.Run
			if name == "files" { // each writer of fileblob has a mutex of its own, so two may find no file and write one
				run = backuptest.RunOneByOne
			}
			run(t, func(*testing.T) backup.Storage { return New(bucket) })
		})
	}
}

func TestBackupsInBuckets(t *testing.T) {
	for name, bucket := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			ctx, mem := t.Context(), vfs.NewMem()
			store, err := db.Open("db", &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 64 << 10}})
			require.NoError(t, err)
			defer store.Close()
			repo := backup.Open(New(bucket))
			var last backup.Info
			for i := range 3 {
				for k := range 1000 {
					require.NoError(t, store.Put(fmt.Appendf(nil, "key%d", k), fmt.Appendf(nil, "value%d", i), db.NoSync))
				}
				last, err = repo.Create(ctx, store, nil)
				require.NoError(t, err)
			}
			_, err = repo.Prune(ctx, backup.Policy{KeepLast: 1})
			require.NoError(t, err)
			report, err := repo.Verify(ctx)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.Equal(t, 1, report.Backups)
			info, err := repo.Restore(ctx, "", "restored", &backup.RestoreOptions{FS: mem})
			require.NoError(t, err)
			require.Equal(t, last, info)
			copied, err := db.Open("restored", &db.Options{FS: mem, ErrorIfMissing: true})
			require.NoError(t, err)
			value, err := copied.Get([]byte("key999"))
			require.NoError(t, err)
			require.Equal(t, "value2", string(value))
			require.NoError(t, copied.Close())
		})
	}
}

func TestErrorsOfAClosedBucket(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	require.NoError(t, bucket.Close())
	s, ctx := New(bucket), context.Background()
	require.ErrorContains(t, s.Create(ctx, "a", strings.NewReader("")), "sievedb: creating a: ")
	_, err := s.Open(ctx, "a")
	require.ErrorContains(t, err, "sievedb: opening a: ")
	require.ErrorContains(t, s.Delete(ctx, "a"), "sievedb: deleting a: ")
	err = nil
	for _, lerr := range s.List(ctx, "a/") {
		err = errors.Join(err, lerr)
	}
	require.ErrorContains(t, err, "sievedb: listing a/: ")
}
