// Package result has short forms for tests of calls that return a value and an error.
package result

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of requires that a call has returned no error, and returns the value: result.Of(os.ReadFile(name))(t).
func Of[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// Err returns the error of a call: require.ErrorIs(t, result.Err(os.ReadFile(name)), fs.ErrNotExist).
func Err[T any](_ T, err error) error { return err }
