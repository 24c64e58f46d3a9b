//go:build !unix

package vfs

import (
	"io/fs"
	"math"
	"os"
)

// openNoFollow opens name unless it is a symbolic link. The check is made
// before the open, for want of a flag that does both in one; on Windows making a
// symbolic link is a privilege.
func openNoFollow(name string, flags int, mode fs.FileMode) (*os.File, error) {
	info, err := os.Lstat(name)
	if err == nil {
		if err := notPlain(info.Mode()); err != nil {
			return nil, pathError("open", name, err)
		}
	}
	return os.OpenFile(name, flags, mode)
}

// syncDir only looks whether dir is there: Windows has no fsync of a
// directory; NTFS journals names itself.
func syncDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = pathError("sync", dir, errNotDir)
	}
	return err
}

// MaxDescriptors returns how many files the process may have open: there is no such
// limit that a program could ask for.
func MaxDescriptors() int { return math.MaxInt32 }
