//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An operator archives, a program writes and is killed, and the state after each of its writes can be restored.
func TestWhatAKilledProgramWroteIsArchivedAndRestored(t *testing.T) {
	home := t.TempDir()
	dir, repo := filepath.Join(home, "db"), filepath.Join(home, "repo")
	works(t, "create", dir)
	first := works(t, "archive", dir, repo)
	require.Contains(t, first, "with which 'restore --at' begins")
	require.Contains(t, first, "reaches sequence 0")

	program, stdin, stdout, stderr := start(t, "shell", "--write", dir)
	_, err := io.WriteString(stdin, "put pear first\nput pear second\nget pear\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, stderr)
	require.Equal(t, "second\n", line)
	require.Contains(t, fails(t, exitFailed, "archive", dir, repo), "another process")
	require.NoError(t, program.Process.Kill())
	require.Error(t, program.Wait())

	require.Contains(t, works(t, "archive", dir, repo), "2 changes in ")
	works(t, "put", dir, "pear", "third")
	require.Contains(t, works(t, "archive", "--json", dir, repo), `"last": 3`)
	require.Contains(t, works(t, "archive", dir, repo), "0 changes in ")
	require.Equal(t, 1, strings.Count(works(t, "backups", repo), "restore --at:"), "one history, in spite of the kill and of 'put'")
	for at, want := range map[string]string{"1": "first\n", "2": "second\n", "3": "third\n"} {
		dest := filepath.Join(home, "at-"+at)
		works(t, "restore", "--at", at, repo, dest)
		require.Equal(t, want, works(t, "get", dest, "pear"))
	}
	require.Contains(t, works(t, "verify", repo), "; 0 faults\n")

	works(t, "archive", "--stop", dir, repo)
	works(t, "put", dir, "pear", "fourth")
	require.Contains(t, works(t, "archive", dir, repo), "with which 'restore --at' begins", "another history")
}

// A verb that writes restarted the history of changes.
func TestVerbsThatWriteKeepTheChangesOfADatabaseThatKeepsThem(t *testing.T) {
	dir, repo := newDatabase(t), filepath.Join(t.TempDir(), "repo")
	works(t, "archive", dir, repo)
	for _, args := range [][]string{{"put", dir, "fig", "one"}, {"delete", dir, "fig"}, {"compact", dir}, {"flush", dir}} {
		works(t, args...)
	}
	stdout := works(t, "archive", dir, repo)
	require.Contains(t, stdout, "2 changes in ")
	require.NotContains(t, stdout, "begins")
}

// The bug: serve --allow-write opened the database without its changes, so the next archive began another history.
func TestServeThatMayWriteKeepsTheChanges(t *testing.T) {
	dir, repo := newDatabase(t), filepath.Join(t.TempDir(), "repo")
	works(t, "archive", dir, repo)
	works(t, "put", dir, "fig", "one")
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	args := []string{"serve", "--allow-write", "--address", "127.0.0.1:0", dir}
	require.Equal(t, exitOK, run(ctx, args, strings.NewReader(""), &cancelingWriter{cancel: cancel}, &errs), errs.String())
	stdout := works(t, "archive", dir, repo)
	require.Contains(t, stdout, "1 change in ")
	require.NotContains(t, stdout, "begins")
}

// The bug: verbs kept all changes, so those of a database that only verbs write filled the disk, even after --stop.
func TestVerbsKeepAsManyChangesAsThereAre(t *testing.T) {
	dir := t.TempDir()
	require.False(t, keepsChanges(dir))
	require.EqualValues(t, 1<<30, keptChanges(dir).Bytes)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "changes"), 0o700))
	require.True(t, keepsChanges(dir))
	for i, name := range []string{"one", "two"} {
		path := filepath.Join(dir, "changes", name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, 900<<20)) // sparse
		require.EqualValues(t, []int64{1 << 30, 1800 << 20}[i], keptChanges(dir).Bytes)
	}
}

// With a flag about tables, archive left the record as it was: the next opening ended the history that it had begun.
func TestTheFirstArchiveRecordsThatChangesAreKept(t *testing.T) {
	dir, repo := newDatabase(t), filepath.Join(t.TempDir(), "repo")
	require.Contains(t, fails(t, exitUsage, "archive", "--compression", "none", dir, repo), "use the first 'archive' without")
	works(t, "archive", dir, repo)
	works(t, "put", dir, "fig", "one")
	works(t, "archive", "--compression", "none", dir, repo)
	require.Contains(t, works(t, "options", dir), "Changes.Bytes")
}
