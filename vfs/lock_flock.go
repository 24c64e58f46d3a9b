//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"os"
	"syscall"
)

func flockLock(f *os.File, shared bool) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	return retryEINTR(func() error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) })
}

func flockUnlock(f *os.File) error {
	return retryEINTR(func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) })
}
