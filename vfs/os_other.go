//go:build !unix && !windows

package vfs

import (
	"io/fs"
	"math"
	"os"
)

func openFile(name string, flags int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flags, mode)
}

func rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// openNoFollow opens name unless it is a symbolic link. The check precedes the open, because no flag does both.
func openNoFollow(name string, flags int, mode fs.FileMode) (*os.File, error) {
	info, err := os.Lstat(name)
	if err == nil {
		if err := notPlain(info.Mode()); err != nil {
			return nil, pathError("open", name, err)
		}
	}
	return os.OpenFile(name, flags, mode)
}

func openDir(name string) (*os.File, error) { return os.Open(name) }

// syncDir only checks that dir exists, because these systems have no fsync for directories.
func syncDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = pathError("sync", dir, errNotDir)
	}
	return err
}

// MaxDescriptors returns how many files the process may have open: math.MaxInt32, because these
// systems have no limit that a program could query.
func MaxDescriptors() int { return math.MaxInt32 }
