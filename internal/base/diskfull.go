//go:build !plan9

package base

import (
	"runtime"
	"syscall"

	"github.com/sievedb/sievedb/internal/errors"
)

// The codes by which Windows says that a disk is full, of its winerror.h. The
// syscall package has no names for them.
const (
	windowsHandleDiskFull = syscall.Errno(39)
	windowsDiskFull       = syscall.Errno(112)
)

// isDiskFull looks for the system's numbers of a full disk and of a used-up quota.
func isDiskFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return runtime.GOOS == "windows" && (errors.Is(err, windowsDiskFull) || errors.Is(err, windowsHandleDiskFull))
}
