package vfs

import (
	"fmt"
	"io"
)

// maxEmptyReads is how many consecutive reads may return neither bytes nor an error, as in package bufio.
const maxEmptyReads = 100

// ReadFull fills p from src at off and returns the number of bytes read. It continues after short reads without an
// error, which io.ReaderAt does not allow but a file system layer may return. If the file ends before p is full, the
// error is io.ErrUnexpectedEOF: the caller knows from the file's size that the bytes exist, or checks the size then.
func ReadFull(src io.ReaderAt, p []byte, off int64) (n int, err error) {
	for empty := 0; n < len(p); {
		got, err := src.ReadAt(p[n:], off+int64(n))
		if got < 0 || got > len(p)-n {
			return n, fmt.Errorf("vfs: a read of %d bytes at offset %d returned %d bytes", len(p)-n, off+int64(n), got)
		}
		n += got
		switch {
		case n == len(p):
		case err == io.EOF:
			return n, io.ErrUnexpectedEOF
		case err != nil:
			return n, err
		case got > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return n, io.ErrNoProgress
			}
		}
	}
	return n, nil
}
