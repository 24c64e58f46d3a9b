package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// On Windows package os opens files so that nobody can rename or remove them: a backup could not remove its links to
// tables of an open database.
func TestOpenFilesCanBeRenamedReplacedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"table", "next"} {
		require.NoError(t, os.WriteFile(path(name), []byte(name), 0o600))
	}
	f := result.Of(vfs.OS.Open(path("table")))(t)
	defer f.Close()
	require.NoError(t, vfs.OS.Link(path("table"), path("link")))
	require.NoError(t, vfs.OS.Remove(path("link")))
	require.NoError(t, vfs.OS.Rename(path("table"), path("renamed")))
	err := vfs.OS.Rename(path("next"), path("renamed"))
	if err != nil && isWine() {
		t.Skip("this Wine cannot replace an open file")
	}
	require.NoError(t, err, "a reader of CURRENT does not keep it from being replaced")
	b := make([]byte, 5)
	result.Of(vfs.ReadFull(f, b, 0))(t)
	require.Equal(t, "table", string(b))
	content := result.Of(os.ReadFile(path("renamed")))(t)
	require.Equal(t, "next", string(content))
}
