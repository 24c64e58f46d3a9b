package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBackupsAreMadeRestoredAndPruned(t *testing.T) {
	dir, repo := newDatabase(t), filepath.Join(t.TempDir(), "repo")
	var ids []string
	for i, pear := range []string{"first", "second", "third"} {
		code, _, stderr := tool(t, "put", dir, "pear", pear)
		require.Equal(t, exitOK, code, stderr)
		code, stdout, stderr := tool(t, "backup", dir, repo)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, "were new; last sequence")
		id, _, _ := strings.Cut(stdout, ":")
		ids = append(ids, id)
		code, stdout, _ = tool(t, "backups", repo)
		require.Equal(t, exitOK, code)
		require.Equal(t, i+2, strings.Count(stdout, "\n"))
		require.Contains(t, stdout, id)
	}

	for id, want := range map[string]string{"": "third\n", ids[1]: "second\n"} {
		dest := filepath.Join(t.TempDir(), "restored")
		code, stdout, stderr := tool(t, "restore", "--id", id, repo, dest)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, "files of")
		_, stdout, _ = tool(t, "get", dest, "pear")
		require.Equal(t, want, stdout)
		code, _, stderr = tool(t, "restore", repo, dest)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, "does not exist or is empty")
	}

	code, dry, stderr := tool(t, "prune", "--keep-last", "1", "--dry-run", repo)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, dry, "1 backups kept; the 2 above")
	require.Contains(t, dry, "without --dry-run to do it")
	_, stdout, _ := tool(t, "backups", repo)
	require.Contains(t, stdout, ids[0])
	code, stdout, stderr = tool(t, "prune", "--keep-last", "1", repo)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, " removed\n")
	require.Contains(t, stdout, ids[0])
	_, stdout, _ = tool(t, "backups", repo)
	require.NotContains(t, stdout, ids[0])
	require.Contains(t, stdout, ids[2])

	code, stdout, stderr = tool(t, "verify", repo)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "1 backups, ")
	require.Contains(t, stdout, "; 0 faults\n")
	objects, err := filepath.Glob(filepath.Join(repo, "objects", "*", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(objects[0], []byte("damage"), 0o644))
	code, stdout, _ = tool(t, "verify", repo)
	require.Equal(t, exitFaults, code)
	require.Contains(t, stdout, filepath.Base(objects[0]))
	require.Contains(t, stdout, ids[2])
	code, _, stderr = tool(t, "restore", repo, filepath.Join(t.TempDir(), "restored"))
	require.Equal(t, exitFailed, code)
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

func TestBackupCommandsExplainMistakes(t *testing.T) {
	dir, none := newDatabase(t), filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"backup", dir}, exitUsage, "usage: sievedb backup DIR REPO"},
		{[]string{"restore", none}, exitUsage, "usage: sievedb restore REPO DEST"},
		{[]string{"backups", none}, exitFailed, "the first backup makes one"},
		{[]string{"verify", none}, exitFailed, "the first backup makes one"},
		{[]string{"prune", "--keep-last", "1", none}, exitFailed, "the first backup makes one"},
		{[]string{"prune", none}, exitFailed, "would remove every backup"},
		{[]string{"backup", "-n", dir, none}, exitUsage, "unknown shorthand flag: 'n'"},
		{[]string{"backups", "--keep-last", "1", none}, exitUsage, "unknown flag: --keep-last"},
		{[]string{"verify", "--id", "x", none}, exitUsage, "unknown flag: --id"},
		{[]string{"backup", none, none}, exitFailed, "there is no database"},
	} {
		code, _, stderr := tool(t, c.args...)
		require.Equal(t, c.code, code, c.args)
		require.Contains(t, stderr, c.want)
	}
	_, err := os.Stat(none)
	require.ErrorIs(t, err, os.ErrNotExist)
}
