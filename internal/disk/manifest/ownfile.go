package manifest

import (
	"fmt"
	"io/fs"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// OwnFile is a file of an open store, whose path should lead to it for as long as the store is open. Another program
// may remove it, or move or replace the directory: then a second store may use the path, and this one must leave it
// alone.
type OwnFile struct {
	fs   vfs.FS // nil: nothing is verified
	path string
	info fs.FileInfo // nil: the file system does not identify files
}

// NewOwnFile returns the file to which the path leads now.
func NewOwnFile(fsys vfs.FS, path string) OwnFile {
	info, err := fsys.Lstat(path)
	if err != nil { // such as a lock without a file
		return OwnFile{}
	}
	if !vfs.SameFile(info, info) {
		info = nil
	}
	return OwnFile{fsys, path, info}
}

// Verify returns an error, of which IsGone is true, if the path does not lead to the file any more, or if the file has
// less than size bytes. A file that cannot be examined may still be there. It costs one Lstat.
func (f *OwnFile) Verify(size int64) error {
	if f.fs == nil {
		return nil
	}
	now, err := f.fs.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &goneError{f.path, "is missing"}
	case err != nil:
		return nil
	case f.info != nil && !vfs.SameFile(f.info, now) && vfs.SameFile(now, now):
		return &goneError{f.path, "is another file than the one that this store opened"}
	case now.Size() < size:
		return &goneError{f.path, fmt.Sprintf("has %d bytes, but %d were written", now.Size(), size)}
	}
	return nil
}

// goneError says what became of an OwnFile.
type goneError struct{ path, fate string }

func (e *goneError) Error() string {
	return fmt.Sprintf("%s %s: another program removed, moved or replaced files or the directory while the database was open", e.path, e.fate)
}

// IsGone reports whether err says that a file of an open store was taken away.
func IsGone(err error) bool {
	var gone *goneError
	return errors.As(err, &gone)
}
