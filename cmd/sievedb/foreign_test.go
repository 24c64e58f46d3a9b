package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/foreign/foreigntest"
	"github.com/sievedb/sievedb/vfs"
)

// 'sievedb repair' of another engine's directory printed "repaired" and succeeded; other
// commands gave the advice to run it.
func TestEveryCommandRefusesOtherEnginesDirectories(t *testing.T) {
	for _, d := range foreigntest.Directories() {
		dir := filepath.Join(t.TempDir(), "db")
		require.NoError(t, d.Files.Write(vfs.OS, dir))
		for _, v := range verbsOf(t) {
			if v.noDir || v.name() == "create" { // which refuses every directory with a database
				continue
			}
			code, stdout, stderr := tool(t, v.onDir(dir)...)
			require.Equal(t, exitFailed, code, "%s %s", v.name(), d.Name)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "holds a database of "+d.Engine)
			require.NotContains(t, stderr, "sievedb repair")
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, len(d.Files), d.Name)
		for name, content := range d.Files {
			got, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
		}
	}
}
