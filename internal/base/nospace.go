package base

import (
	"io/fs"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// IsNoSpace reports whether err is due to a full disk or an exhausted user quota.
func IsNoSpace(err error) bool {
	return err != nil && (errors.Is(err, ErrNoSpace) || isDiskFull(err))
}

// IsWriteRefused reports whether err is that of a process which may not write there: it has no permission, or the file
// system is read-only.
func IsWriteRefused(err error) bool { return errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err) }

// NoSpace returns err or, if it is due to a full disk, an error that also matches ErrNoSpace. It
// returns nil if err is nil.
func NoSpace(err error) error {
	if !IsNoSpace(err) || errors.Is(err, ErrNoSpace) {
		return err
	}
	return &noSpaceError{err}
}

// noSpaceError matches ErrNoSpace and its cause.
type noSpaceError struct{ cause error }

func (e *noSpaceError) Error() string {
	return ErrNoSpace.Error() + "; free some space: " + e.cause.Error()
}

func (e *noSpaceError) Unwrap() []error { return []error{ErrNoSpace, e.cause} }
