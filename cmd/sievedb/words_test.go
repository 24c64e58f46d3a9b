package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Negative limits stopped after one difference, or meant no limit.
func TestWrongWordsAreRefused(t *testing.T) {
	dir := newDatabase(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"diff", dir, dir, "--limit", "-1"}, "--limit is -1"},
		{[]string{"changes", dir, "--count", "-1"}, "--count is -1"},
		{[]string{"changes", dir, "--since", "-5"}, "--since is -5"},
		{[]string{"help", "nope"}, `unknown verb "nope"`},
		{[]string{"gte", dir, "key"}, `unknown verb "gte"; did you mean get?`},
		{[]string{"help", "chekpoint"}, `unknown verb "chekpoint"; did you mean checkpoint?`},
		{[]string{"dump", os.Args[0]}, "--type says which of them it is"},
		{[]string{"import", dir, os.DevNull, "--resume"}, "--resume needs a plain file"},
	} {
		code, stdout, stderr := tool(t, c.args...)
		require.Equal(t, exitUsage, code, "%s: %s", c.args, stderr)
		require.Empty(t, stdout, c.args)
		require.Contains(t, stderr, c.want, c.args)
	}
	code, _, stderr := tool(t, "export", dir, os.DevNull)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "is not a plain file", "and not that it is to be removed")
	code, _, stderr = tool(t, "import", dir, dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "is a directory; want a file with entries")
	require.NoFileExists(t, dir+stateSuffix)
}

// The damage was in the output only.
func TestPropertiesOfDamagedTablesFail(t *testing.T) {
	dir := newDatabase(t)
	code, _, stderr := tool(t, "properties", dir)
	require.Equal(t, exitOK, code, stderr)
	code, stdout, stderr := tool(t, "properties", os.Args[0])
	require.Equal(t, exitFaults, code, stderr)
	require.Contains(t, stdout, "magic number")

	// Of a table whose metaindex is damaged they were unknown, as of a table that has none.
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	table, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	table[bytes.LastIndex(table, []byte("filter.sievedb.properties"))] ^= 1
	require.NoError(t, os.WriteFile(tables[0], table, 0o600))
	code, stdout, stderr = tool(t, "properties", dir)
	require.Equal(t, exitFaults, code, stderr)
	require.Contains(t, stdout, "metaindex block")
}

// destroy reported a directory without a database as removed, put --ttl named an option, and a state after the
// last sequence number had no differences, without a word.
func TestVerbsSayWhenThereIsNothingToDo(t *testing.T) {
	home := t.TempDir()
	code, stdout, stderr := tool(t, "destroy", home, "--yes")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "nothing was removed")
	require.DirExists(t, home)

	dir := newDatabase(t)
	code, _, stderr = tool(t, "put", dir, "a", "b", "--ttl", "1h")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--ttl needs --expiry")
	code, _, stderr = tool(t, "diff", dir, "--from-seq", "999")
	require.Equal(t, exitOK, code)
	require.Contains(t, stderr, "--from-seq 999 is after the last sequence number of the database, 5")
	code, _, stderr = tool(t, "destroy", dir, "--yes")
	require.Equal(t, exitOK, code, stderr)
	require.NoDirExists(t, dir)
}
