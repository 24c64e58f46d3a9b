// Package s3test runs backups against a server that speaks Amazon's S3 protocol, through its SDK. It is a module of its
// own, because the SDK is large and only this test needs it.
package s3test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/s3blob"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/backup/blob"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/vfs"
)

// newStorage starts a server with an empty bucket.
func newStorage(t *testing.T) backup.Storage {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("backups")})
	require.NoError(t, err)
	bucket, err := s3blob.OpenBucket(t.Context(), client, "backups", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return blob.New(bucket)
}

func TestAnS3BucketConforms(t *testing.T) {
	s := newStorage(t)
	backuptest.Run(t, func(*testing.T) backup.Storage { return s })
}

// Backups, segments of the log between them, verification, restores and pruning.
func TestBackupsInAnS3Bucket(t *testing.T) {
	ctx, fsys := context.Background(), vfs.NewMem()
	store, err := db.Open("db", &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 64 << 10}, Changes: db.ChangeRetention{Bytes: 1 << 30},
	})
	require.NoError(t, err)
	defer store.Close()
	repo := backup.Open(newStorage(t))
	var points []uint64
	for round := range 3 {
		for k := range 1000 {
			require.NoError(t, store.Put(fmt.Appendf(nil, "key%d", k), fmt.Appendf(nil, "value %d", round), db.NoSync))
		}
		_, err := repo.Archive(ctx, store, nil)
		require.NoError(t, err)
		points = append(points, store.Metrics().LastSequence)
		if round == 1 {
			_, err = repo.Create(ctx, store, nil)
			require.NoError(t, err)
		}
	}
	report, err := repo.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	for round, point := range points {
		dir := fmt.Sprint("restored", round)
		_, err := repo.RestoreAt(ctx, "", backup.Point{Sequence: point}, dir, &backup.RestoreOptions{FS: fsys})
		require.NoError(t, err)
		restored, err := db.Open(dir, &db.Options{FS: fsys})
		require.NoError(t, err)
		for _, k := range []int{0, 500, 999} {
			value, err := restored.Get(fmt.Appendf(nil, "key%d", k))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("value ", round), string(value))
		}
		require.NoError(t, restored.Close())
	}
	_, err = repo.Prune(ctx, backup.Policy{KeepLast: 1})
	require.NoError(t, err)
	report, err = repo.Verify(ctx)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}
