package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Verbs that read work on a database whose files are links; those that write refuse it, and say what to do.
func TestVerbsThatReadAcceptLinks(t *testing.T) {
	dir := newDatabase(t)
	links := filepath.Join(t.TempDir(), "links")
	require.NoError(t, os.Mkdir(links, 0o700))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	table := ""
	for _, file := range files {
		if err := os.Symlink(filepath.Join(dir, file.Name()), filepath.Join(links, file.Name())); err != nil {
			t.Skip("no symbolic links:", err)
		}
		if strings.HasSuffix(file.Name(), ".ldb") {
			table = filepath.Join(links, file.Name())
		}
	}
	for _, args := range [][]string{
		{"get", links, "pear"}, {"has", links, "pear"}, {"scan", links}, {"count", links}, {"stats", links}, {"size", links}, {"tables", links},
		{"properties", table}, {"explain", links, "pear"}, {"filters", links}, {"check", links}, {"dump", table}, {"dump", "--all", links},
		{"export", links, filepath.Join(t.TempDir(), "file")},
	} {
		works(t, args...)
	}
	code, out, stderr := tool(t, "diff", "--from-seq", "0", links)
	require.Contains(t, []int{exitOK, 5}, code, "with or without differences: %s", stderr)
	require.NotEmpty(t, out)
	for _, args := range [][]string{{"put", links, "a", "b"}, {"compact", links}, {"repair", links}} {
		code, _, stderr := tool(t, args...)
		require.NotEqual(t, exitOK, code)
		require.Contains(t, stderr, "replace the link with a copy of the file that it leads to", args)
	}
	require.Equal(t, "value of pear\n", works(t, "get", dir, "pear"))
}
