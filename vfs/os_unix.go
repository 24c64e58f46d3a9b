//go:build unix

package vfs

import (
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"
)

func openFile(name string, flags int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flags, mode)
}

func rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// openNoFollow opens name unless it is a symbolic link. O_NONBLOCK has no effect on a plain
// file, and keeps the open of a pipe from waiting for its other end.
func openNoFollow(name string, flags int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
}

// openDir opens a directory. O_NONBLOCK has no effect on one, and keeps the open of a named pipe from waiting.
func openDir(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// MaxDescriptors returns how many files the process may have open: the soft limit, which the Go runtime has raised to
// the hard limit. It returns math.MaxInt32 if there is no limit, and 0 if the limit is unknown.
func MaxDescriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}

// syncDir is fsync of the directory. File systems that do not support it for directories
// return EINVAL or ENOTSUP (fsync(2)); every other error is a failure.
func syncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	info, err := d.Stat()
	switch {
	case err == nil && !info.IsDir():
		err = pathError("sync", dir, errNotDir)
	case err == nil:
		err = d.Sync()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
			err = nil
		}
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
