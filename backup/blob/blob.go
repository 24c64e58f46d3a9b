// Package blob stores backup repositories in the buckets of gocloud.dev/blob: Amazon S3, Google Cloud
// Storage, Azure Blob Storage and others.
//
//	import (
//		gcblob "gocloud.dev/blob"
//
//		"github.com/sievedb/sievedb/backup"
//		"github.com/sievedb/sievedb/backup/blob"
//	)
//
//	bucket, err := gcblob.OpenBucket(ctx, "s3://my-backups?region=eu-central-1")
//	if err != nil {
//		log.Fatal(err)
//	}
//	repo := backup.Open(blob.New(bucket))
//
// Import gocloud.dev/blob/s3blob, gcsblob or azureblob for the scheme of the URL. Several repositories
// share a bucket with gcblob.PrefixedBucket. For a directory, backup.NewDir is better: fileblob does not sync
// its files, so a power cut may lose them, and two writers of one name may both succeed.
package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sievedb/sievedb/backup"
)

// New returns the Storage in a bucket, which the caller closes after the last call. The service must
// show an object in listings as soon as it was created, as those above do, and support writes that
// fail if the object exists (blob.WriterOptions.IfNotExist).
func New(bucket *blob.Bucket) backup.Storage { return bucketStorage{bucket} }

type bucketStorage struct{ bucket *blob.Bucket }

// notExist makes an error about a missing object match fs.ErrNotExist.
func notExist(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// Create implements backup.Storage. A writer whose context is done when it is closed makes no object.
func (s bucketStorage) Create(ctx context.Context, name string, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(ctx, name, &blob.WriterOptions{IfNotExist: true, ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("sievedb: creating %s: %w", name, err)
	}
	_, err = io.Copy(w, r)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		_ = w.Close() // it returns the error of the context
		return fmt.Errorf("sievedb: creating %s: %w", name, err)
	}
	if err = w.Close(); gcerrors.Code(err) == gcerrors.FailedPrecondition {
		err = fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	if err != nil {
		err = fmt.Errorf("sievedb: creating %s: %w", name, err)
	}
	return err
}

// Open implements backup.Storage.
func (s bucketStorage) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.bucket.NewReader(ctx, name, nil)
	if err != nil {
		return nil, fmt.Errorf("sievedb: opening %s: %w", name, notExist(err))
	}
	return r, nil
}

// List implements backup.Storage.
func (s bucketStorage) List(ctx context.Context, prefix string) iter.Seq2[backup.Object, error] {
	return func(yield func(backup.Object, error) bool) {
		objects := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := objects.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(backup.Object{}, fmt.Errorf("sievedb: listing %s: %w", prefix, err))
				return
			}
			if !yield(backup.Object{Name: o.Key, Size: o.Size}, nil) {
				return
			}
		}
	}
}

// Delete implements backup.Storage.
func (s bucketStorage) Delete(ctx context.Context, name string) error {
	if err := s.bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("sievedb: deleting %s: %w", name, err)
	}
	return nil
}
