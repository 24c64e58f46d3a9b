//go:build aix || solaris

package vfs

import (
	"os"
	"syscall"
)

// lockFamilies uses the ordinary fcntl lock, which all programs use on these systems, goleveldb included.
func lockFamilies(f *os.File, shared bool) error { return fcntlLock(f, syscall.F_SETLK, shared) }

func unlockFamilies(f *os.File) { _ = fcntlUnlock(f, syscall.F_SETLK) }
