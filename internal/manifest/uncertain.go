package manifest

import "github.com/sievedb/sievedb/internal/errors"

// uncertainError is a failure behind which an edit may be in force after a crash,
// or may not.
type uncertainError struct{ cause error }

func uncertain(cause error) error { return &uncertainError{cause} }

func (e *uncertainError) Error() string {
	return "whether the edit took effect is unknown until the database is opened again: " + e.cause.Error()
}

func (e *uncertainError) Unwrap() error { return e.cause }

// IsUncertain reports whether err, of Set.Begin or Set.Apply, leaves open whether
// the edit is in the MANIFEST in force. Then no file may be removed that either
// outcome needs: neither what the edit deletes nor what it adds. After any other
// error the edit has no effect and never will.
func IsUncertain(err error) bool {
	var u *uncertainError
	return errors.As(err, &u)
}
