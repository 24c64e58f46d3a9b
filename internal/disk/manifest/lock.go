package manifest

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// DirLock is the lock of a database directory.
type DirLock struct {
	io.Closer // releases the lock; the file LOCK remains

	fs     vfs.FS
	path   string
	shared bool
	made   bool // LockDir made the file LOCK
	own    OwnFile
}

// LockDir locks the directory.
func LockDir(fsys vfs.FS, dir string, shared bool) (*DirLock, error) {
	l := &DirLock{fs: fsys, path: filepath.Join(dir, base.LockName), shared: shared}
	if _, err := fsys.Lstat(l.path); errors.Is(err, fs.ErrNotExist) {
		l.made = true
	}
	var err error
	if l.Closer, err = fsys.Lock(l.path, shared); err != nil || shared {
		return l, err
	}
	returned := false
	defer func() {
		if !returned { // the file system panics
			_ = l.Close()
		}
	}()
	l.own = NewOwnFile(fsys, l.path)
	returned = true
	return l, nil
}

// Verify returns an error if the lock is exclusive and the path of LOCK does not lead to the locked file any more.
func (l *DirLock) Verify() error {
	return errors.Wrap(l.own.Verify(0), "sievedb: the directory is not this store's any more, so nothing in it is written, removed or replaced")
}

// Abandon releases the lock when nothing was changed. It removes the file LOCK if LockDir made it, so
// that a directory that is refused stays unchanged.
func (l *DirLock) Abandon() error {
	if !l.made {
		return l.Close()
	}
	if !l.shared {
		return l.Remove()
	}
	if err := l.Close(); err != nil {
		return err
	}
	// The file remains if another process holds a lock on it: a reader's lock on a removed file
	// would exclude no writer.
	if lock, err := l.fs.Lock(l.path, false); err == nil {
		return vfs.RemoveLock(l.fs, l.path, lock)
	}
	return nil
}

// Remove removes the file LOCK and releases the lock, which must be exclusive.
func (l *DirLock) Remove() error { return vfs.RemoveLock(l.fs, l.path, l.Closer) }
