package docs_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every snippet of the cookbook is a part of an example, line for line. The one for bbolt is in a module that has it.
func TestCookbookSnippetsAreInExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "db", "example_cookbook_*_test.go"))
	require.NoError(t, err)
	require.Len(t, files, 6)
	code := read(t, "cmd/peerbench/example_bbolt_test.go")
	for _, name := range files {
		code += read(t, path.Join("db", filepath.Base(name)))
	}
	recipes := pages(t)["docs/cookbook.md"]
	require.Len(t, recipes, 7)
	for _, s := range recipes {
		require.Contains(t, code, "\n"+strings.TrimSpace(s)+"\n")
	}
}
