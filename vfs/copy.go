package vfs

import (
	"io"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// copyChunk is the size of the reads of Copy, in bytes.
const copyChunk = 256 << 10

// Copy makes a new file with the first size bytes of src, and syncs it. The file must not exist; after
// an error it is removed. On Linux, file systems that can (Btrfs, XFS) share the bytes of both files.
// The name of the new file is not durable; see FS.SyncDir.
func Copy(fsys FS, src File, size int64, newname string) error {
	dst, err := fsys.Create(newname)
	if err != nil {
		return err
	}
	if err = copyBytes(dst, src, size); err == nil {
		err = dst.Sync()
	}
	if err = errors.CombineErrors(err, dst.Close()); err != nil {
		return errors.CombineErrors(err, fsys.Remove(newname))
	}
	return nil
}

func copyBytes(dst, src File, size int64) error {
	from, ok := src.(*osFile)
	if to, both := dst.(*osFile); ok && both {
		return to.copyFrom(from, size)
	}
	buf := make([]byte, min(size, copyChunk))
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(size-at, copyChunk)]
		if _, err := ReadFull(src, buf, at); err != nil {
			return err
		}
		if _, err := dst.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// copyFrom appends the first bytes of src. Package os uses copy_file_range(2) where there is one. src
// is read through its offset, which no other method uses.
func (f *osFile) copyFrom(src *osFile, size int64) error {
	if _, err := src.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n, err := f.f.ReadFrom(io.LimitReader(src.f, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
