package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// makers are the verbs that make a database where there is none.
var makers = []string{"create", "load", "ingest", "import"}

// Of a path below a file, and 'repair' of one that does not exist, the user saw only what
// the operating system had said of it.
func TestEveryCommandExplainsAWrongPath(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	paths := map[string]string{
		filepath.Join(home, "none"):   "database",
		filepath.Join(file, "below"):  "looking for a database",
		file:                          "is a file; a database is a directory",
		filepath.Join(home, "a\x00b"): "looking for a database",
	}
	for path, want := range paths {
		for _, v := range verbsOf(t) {
			if v.noDir || slices.Contains(makers, v.name()) && want == "database" {
				continue
			}
			code, stdout, stderr := tool(t, v.onDir(path)...)
			require.Equal(t, exitFailed, code, "%s %q", v.name(), path)
			require.Empty(t, stdout)
			require.Regexp(t, "^sievedb: .*"+want, stderr, "%s %q", v.name(), path)
		}
	}
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
