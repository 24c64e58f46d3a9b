//go:build linux || aix || solaris

package vfs

import (
	"io"
	"os"
	"syscall"
)

func fcntlLock(f *os.File, command int, shared bool) error {
	return retryEINTR(func() error { return syscall.FcntlFlock(f.Fd(), command, wholeFile(shared)) })
}

func fcntlUnlock(f *os.File, command int) error {
	whole := wholeFile(false)
	whole.Type = syscall.F_UNLCK
	return retryEINTR(func() error { return syscall.FcntlFlock(f.Fd(), command, whole) })
}

// wholeFile is an fcntl lock on the whole file, including bytes appended later.
func wholeFile(shared bool) *syscall.Flock_t {
	kind := int16(syscall.F_WRLCK)
	if shared {
		kind = syscall.F_RDLCK
	}
	return &syscall.Flock_t{Type: kind, Whence: io.SeekStart}
}
