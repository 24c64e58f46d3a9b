package vfs

import (
	"io"
	"runtime"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// RemoveLock removes the file that lock, acquired with FS.Lock, locks exclusively, and releases
// the lock. No other process can lock the file in between; otherwise a third process could
// create and lock a new file, and two processes would write.
//
// Windows does not remove an open file, so there the lock is released first. If another process
// opens the file in between, Windows does not remove it either.
func RemoveLock(fsys FS, name string, lock io.Closer) (err error) {
	if runtime.GOOS == "windows" {
		return errors.Join(lock.Close(), removeIfThere(fsys, name))
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // also if fsys panics
	return removeIfThere(fsys, name)
}
