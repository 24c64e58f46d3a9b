package base

import "github.com/sievedb/sievedb/internal/errors"

// IsNoSpace reports whether err comes of a full disk, or of a user's quota that
// is used up.
func IsNoSpace(err error) bool {
	return err != nil && (errors.Is(err, ErrNoSpace) || isDiskFull(err))
}

// NoSpace returns err, and where it comes of a full disk, an error that is
// ErrNoSpace as well. Nil stays nil.
func NoSpace(err error) error {
	if !IsNoSpace(err) || errors.Is(err, ErrNoSpace) {
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
