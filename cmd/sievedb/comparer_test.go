package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a table was missing, the tool advised to set Options.Comparer, an option of the library.
func TestCustomComparerOfADamagedDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../testdata/golden/leveldb-1.23-idb-cmp1/db")))
	require.NoError(t, os.Remove(filepath.Join(dir, "000005.ldb")))
	for verb, want := range map[string]string{
		"stats":      `has the custom comparer "idb_cmp1", which this tool does not have; get, has,`,
		"follow":     `has the custom comparer "idb_cmp1", which this tool does not have; get, has,`,
		"flush":      `has the custom comparer "idb_cmp1", which this tool does not have; it can only be read`,
		"scan":       "1 tables that the MANIFEST lists are missing",
		"properties": "", // of the tables that exist
	} {
		code, _, stderr := tool(t, verb, dir)
		if want == "" {
			require.Equal(t, exitOK, code, stderr)
			continue
		}
		require.Equal(t, exitFailed, code, verb)
		require.Contains(t, stderr, want, verb)
	}
}
