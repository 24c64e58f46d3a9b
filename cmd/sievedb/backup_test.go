package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The transcript of copies has the rest, but masks the names of backups.
func TestBackupsAreRestoredAndPrunedByTheirNames(t *testing.T) {
	dir, repo := newDatabase(t), filepath.Join(t.TempDir(), "repo")
	var ids []string
	for _, pear := range []string{"first", "second", "third"} {
		works(t, "put", dir, "pear", pear)
		id, _, _ := strings.Cut(works(t, "backup", dir, repo), ":")
		ids = append(ids, id)
		require.Contains(t, works(t, "backups", repo), id)
	}
	for id, want := range map[string]string{"": "third\n", ids[1]: "second\n"} {
		dest := filepath.Join(t.TempDir(), "restored")
		works(t, "restore", "--id", id, repo, dest)
		require.Equal(t, want, works(t, "get", dest, "pear"))
	}

	require.Contains(t, works(t, "prune", "--keep-last", "1", "--dry-run", repo), ids[0])
	require.Contains(t, works(t, "backups", repo), ids[0])
	require.Contains(t, works(t, "prune", "--keep-last", "1", repo), ids[0])
	list := works(t, "backups", repo)
	require.NotContains(t, list, ids[0])
	require.Contains(t, list, ids[2])

	objects, err := filepath.Glob(filepath.Join(repo, "objects", "*", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(objects[0], []byte("damage"), 0o644))
	code, stdout, _ := tool(t, "verify", repo)
	require.Equal(t, exitFaults, code)
	require.Contains(t, stdout, filepath.Base(objects[0]))
	require.Contains(t, stdout, ids[2])
	stderr := fails(t, exitFailed, "restore", repo, filepath.Join(t.TempDir(), "restored"))
	require.Contains(t, stderr, filepath.Base(objects[0]))
	require.NotContains(t, stderr, "sievedb repair")

	// A damaged description does not hide the other backups.
	damaged := filepath.Join(repo, "backups", ids[0])
	require.NoError(t, os.WriteFile(damaged, []byte("damage\n"), 0o644))
	code, stdout, stderr = tool(t, "backups", repo)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, ids[0])
	require.Contains(t, stdout, ids[2])
}
