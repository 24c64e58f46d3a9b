package manifest

import "github.com/sievedb/sievedb/internal/base/errors"

// uncertainError is a failure after which it is unknown whether an edit takes effect after a crash.
type uncertainError struct{ cause error }

func uncertain(cause error) error { return &uncertainError{cause} }

func (e *uncertainError) Error() string {
	return "it is unknown whether the edit took effect until the database is opened again: " + e.cause.Error()
}

func (e *uncertainError) Unwrap() error { return e.cause }

// IsUncertain reports whether err, returned by Set.Begin or Set.Apply, leaves open whether the edit is in the current
// MANIFEST. If so, no file may be removed that either outcome needs: neither those that the edit deletes nor those that
// it adds. After any other error the edit has no effect and never will.
func IsUncertain(err error) bool {
	var u *uncertainError
	return errors.As(err, &u)
}
