//go:build !plan9

package base

import (
	"runtime"
	"syscall"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// The error codes of a full disk in Windows' winerror.h. Package syscall has no names for them.
const (
	windowsHandleDiskFull = syscall.Errno(39)
	windowsDiskFull       = syscall.Errno(112)
)

// isDiskFull checks for the system's error numbers of a full disk and of an exhausted quota.
func isDiskFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return runtime.GOOS == "windows" && (errors.Is(err, windowsDiskFull) || errors.Is(err, windowsHandleDiskFull))
}

func isReadOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }
