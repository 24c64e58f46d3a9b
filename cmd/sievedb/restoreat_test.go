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

	windows, err := repo.Windows(context.Background())
	require.NoError(t, err)
	require.Contains(t, works(t, "backups", repoDir), fmt.Sprintf("restore --at: %v\n", windows[0]))
	for at, want := range map[string]string{"1": "first\n", "2": "second\n", windows[0].To.Format(time.RFC3339Nano): "third\n"} {
		dest := filepath.Join(t.TempDir(), "restored")
		require.Contains(t, works(t, "restore", "--at", at, repoDir, dest), "last sequence")
		require.Equal(t, want, works(t, "get", dest, "pear"))
	}
	require.Contains(t, fails(t, exitFailed, "restore", "--at", "4", repoDir, filepath.Join(t.TempDir(), "restored")), "what can be is stream")
}
