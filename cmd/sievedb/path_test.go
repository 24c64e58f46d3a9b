package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		for _, cmd := range commands {
			if cmd.dir != "DIR" || (cmd.name == "load" || cmd.name == "ingest") && want == "database" { // which create it
				continue
			}
			args := append([]string{cmd.name, path}, []string{"key", "value"}[:cmd.min]...)
			code, stdout, stderr := tool(t, args...)
			require.Equal(t, exitFailed, code, "%s %q", cmd.name, path)
			require.Empty(t, stdout)
			require.Regexp(t, "^sievedb: .*"+want, stderr, "%s %q", cmd.name, path)
		}
	}
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
