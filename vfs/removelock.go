package vfs

import (
	"io"
	"runtime"

	"github.com/sievedb/sievedb/internal/errors"
)

// RemoveLock removes the file on which lock, of FS.Lock, is exclusive, and releases
// the lock. Nobody else can have locked the file in between: then a third program
// would make the file anew, lock that one, and both would write.
//
// Windows removes no file that is open. It does not remove one that somebody else
// has opened in the meantime either, so that there the lock is released first.
func RemoveLock(fsys FS, name string, lock io.Closer) (err error) {
	if runtime.GOOS == "windows" {
		return errors.Join(lock.Close(), removeIfThere(fsys, name))
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // also if fsys panics
	return removeIfThere(fsys, name)
}
