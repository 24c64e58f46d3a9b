//go:build !(plan9 || js || wasip1 || sievedb_stderrors)

package errors

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/cockroachdb/errors/errbase"
	"github.com/stretchr/testify/require"
)

// throughTwoCalls returns an error whose stack has three functions of this file.
func throughTwoCalls() error { return Wrapf(inner(), "table %d", 7) }

func inner() error { return New("torn") }

func TestErrorsPrintTheStackOfTheirOrigin(t *testing.T) {
	err := throughTwoCalls()
	text := fmt.Sprintf("%+v", err)
	require.True(t, strings.HasPrefix(text, "table 7: torn\n"), text)
	for _, function := range []string{"errors.inner", "errors.throughTwoCalls", "errors.TestErrorsPrintTheStackOfTheirOrigin"} {
		require.Contains(t, text, function)
	}
	require.NotContains(t, text, "errors.callers", "stacks begin at the caller of this package")
	require.NotContains(t, text, "errors.Wrapf")
	require.Contains(t, text, "cockroach_test.go:")

	var traced errbase.StackTraceProvider
	require.True(t, As(err, &traced), "programs that report errors of cockroachdb/errors find the stack")
	require.Equal(t, "throughTwoCalls", fmt.Sprintf("%n", traced.StackTrace()[0]))
	for what, err := range map[string]error{"New": New("x"), "Newf": Newf("x"), "Wrap": Wrap(fs.ErrExist, "x"), "Wrapf": Wrapf(fs.ErrExist, "x")} {
		require.True(t, As(err, &traced))
		require.Equal(t, "TestErrorsPrintTheStackOfTheirOrigin", fmt.Sprintf("%n", traced.StackTrace()[0]), what)
	}
}
