package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

func TestAPointBetweenBackupsIsRestored(t *testing.T) {
	dir, repoDir := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "repo")
	store, err := db.Open(dir, &db.Options{Changes: db.ChangeRetention{Bytes: 1 << 20}})
	require.NoError(t, err)
	repo, err := repository(repoDir)
	require.NoError(t, err)
	for _, value := range []string{"first", "second", "third"} {
		require.NoError(t, store.Put([]byte("pear"), []byte(value), nil))
		_, err := repo.Archive(context.Background(), store, nil)
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())

	code, stdout, stderr := tool(t, "backups", repoDir)
	require.Equal(t, exitOK, code, stderr)
	windows, err := repo.Windows(context.Background())
	require.NoError(t, err)
	require.Contains(t, stdout, fmt.Sprintf("restore --at: %v\n", windows[0]))
	for at, want := range map[string]string{"1": "first\n", "2": "second\n", windows[0].To.Format(time.RFC3339Nano): "third\n"} {
		dest := filepath.Join(t.TempDir(), "restored")
		code, stdout, stderr := tool(t, "restore", "--at", at, repoDir, dest)
		require.Equal(t, exitOK, code, stderr)
		require.Contains(t, stdout, "last sequence")
		_, stdout, _ = tool(t, "get", dest, "pear")
		require.Equal(t, want, stdout)
	}
	for at, want := range map[string]string{"4": "what can be is stream", "yesterday": "such as 2026-03-01T12:00:00Z", "0": "above 0", "": "--at is"} {
		code, _, stderr := tool(t, "restore", "--at", at, repoDir, filepath.Join(t.TempDir(), "restored"))
		require.NotEqual(t, exitOK, code)
		require.Contains(t, stderr, want)
	}
}
