package base

import (
	stderrors "errors"
	"runtime"
	"syscall"
)

// The codes by which Windows says that a disk is full, of its winerror.h. The
// syscall package has no names for them.
const (
	windowsHandleDiskFull = syscall.Errno(39)
	windowsDiskFull       = syscall.Errno(112)
)

// IsNoSpace reports whether err comes of a full disk, or of a user's quota that
// is used up.
func IsNoSpace(err error) bool {
	if err == nil {
		return false
	}
	if stderrors.Is(err, ErrNoSpace) || stderrors.Is(err, syscall.ENOSPC) || stderrors.Is(err, syscall.EDQUOT) {
		return true
	}
	return runtime.GOOS == "windows" && (stderrors.Is(err, windowsDiskFull) || stderrors.Is(err, windowsHandleDiskFull))
}

// NoSpace returns err, and where it comes of a full disk, an error that is
// ErrNoSpace as well. Nil stays nil.
func NoSpace(err error) error {
	if !IsNoSpace(err) || stderrors.Is(err, ErrNoSpace) {
		return err
	}
	return &noSpaceError{err}
}

// noSpaceError is ErrNoSpace and its cause.
type noSpaceError struct{ cause error }

func (e *noSpaceError) Error() string {
	return ErrNoSpace.Error() + "; free some: " + e.cause.Error()
}

func (e *noSpaceError) Unwrap() []error { return []error{ErrNoSpace, e.cause} }
