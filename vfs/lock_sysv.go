//go:build aix || solaris

package vfs

import (
	"os"
	"syscall"
)

// lockFamilies takes the plain fcntl lock, the one these systems agree on.
// goleveldb uses the same there.
func lockFamilies(f *os.File, shared bool) error { return fcntlLock(f, syscall.F_SETLK, shared) }

func unlockFamilies(f *os.File) { _ = fcntlUnlock(f, syscall.F_SETLK) }
