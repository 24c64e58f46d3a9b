package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWritableLeavesFilesUnchanged(t *testing.T) {
	dir := t.TempDir()
	old, missing := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	require.NoError(t, os.WriteFile(old, []byte("as it was"), 0o644))
	require.NoError(t, Writable("", old, missing))
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "as it was", string(text))
	require.NoFileExists(t, missing)

	require.ErrorIs(t, Writable(old, filepath.Join(dir, "none", "file")), fs.ErrNotExist)
	require.Error(t, Writable(dir), "a folder")
}
