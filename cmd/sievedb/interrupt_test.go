package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cancelAfter cancels when so many bytes were written to it, or read through it.
type cancelAfter struct {
	cancel func()
	left   int
	r      io.Reader
}

func (c *cancelAfter) count(n int) {
	if c.left -= n; c.left <= 0 {
		c.cancel()
	}
}

func (c *cancelAfter) Write(p []byte) (int, error) { c.count(len(p)); return len(p), nil }

func (c *cancelAfter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), 4096)])
	c.count(n)
	return n, err
}

// Without input or at the first Ctrl-C, every verb that reads standard input ends.
func TestVerbsThatReadInputCanBeInterrupted(t *testing.T) {
	for _, args := range [][]string{
		{"get", newDatabase(t), "-"}, {"has", newDatabase(t), "-"}, {"delete", newDatabase(t), "-"}, {"put", newDatabase(t), "key", "-"},
		{"load", filepath.Join(t.TempDir(), "db")}, {"import", filepath.Join(t.TempDir(), "db")}, {"ingest", filepath.Join(t.TempDir(), "db"), "-"},
		{"shell", newDatabase(t)},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin, in := io.Pipe()
		go func() {
			_, _ = io.WriteString(in, "\n")
			cancel()
		}()
		var out, errs bytes.Buffer
		if args[0] == "get" || args[0] == "has" || args[0] == "shell" {
			require.Contains(t, []int{exitInterrupted}, run(ctx, args, stdin, &out, &errs), "%s: %s", args, errs.String())
		} else {
			require.NotEqual(t, exitOK, run(ctx, args, stdin, &out, &errs), "%s: %s", args, errs.String())
		}
		require.NoError(t, stdin.Close())
	}
}

func TestLongVerbsCanBeInterrupted(t *testing.T) {
	dir := manyKeys(t, 20_000)
	for _, args := range [][]string{{"scan", dir}, {"export", dir}, {"dump", "--all", "--entries", dir}, {"diff", dir, newDatabase(t)}} {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		code := run(ctx, args, strings.NewReader(""), &cancelAfter{cancel: cancel, left: 1000}, &errs)
		require.Equal(t, exitInterrupted, code, "%s: %s", args, errs.String())
		require.Equal(t, "sievedb: interrupted\n", errs.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"count", dir}, {"check", dir}, {"compact", dir}, {"filters", dir}, {"upgrade-filters", "--filter", "fuse", dir},
		{"checkpoint", dir, filepath.Join(t.TempDir(), "copy")}, {"backup", dir, filepath.Join(t.TempDir(), "repo")},
		{"archive", dir, filepath.Join(t.TempDir(), "repo")}, {"bench"},
	} {
		var errs bytes.Buffer
		code := run(ctx, args, strings.NewReader(""), io.Discard, &errs)
		require.Equal(t, exitInterrupted, code, "%s: %s", args, errs.String())
	}
	code, stdout, stderr := tool(t, "check", dir)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "20000 entries")
}

func manyKeys(t *testing.T, n int) string {
	var lines strings.Builder
	for i := range n {
		lines.WriteString(string(benchKey(i)) + "\tvalue\n")
	}
	dir := filepath.Join(t.TempDir(), "db")
	code, _, stderr := loadTool(t, lines.String(), "load", dir)
	require.Equal(t, exitOK, code, stderr)
	return dir
}

// An export that was cut anywhere continues to the same file as one that was not interrupted.
func TestExportsContinue(t *testing.T) {
	dir := manyKeys(t, 30_000)
	for _, format := range []string{formJSON, formBinary} {
		home := t.TempDir()
		whole := filepath.Join(home, "whole")
		code, _, stderr := tool(t, "export", dir, whole, "--format", format)
		require.Equal(t, exitOK, code, stderr)
		want, err := os.ReadFile(whole)
		require.NoError(t, err)
		for i, size := range []int{0, 1, 20, len(want) / 2, len(want)/2 + 1, len(want) - 1, len(want)} {
			path := filepath.Join(home, "export") + string(rune('a'+i))
			require.NoError(t, os.WriteFile(path+partialSuffix, want[:size], 0o600))
			code, _, stderr = tool(t, "export", dir, path)
			require.Equal(t, exitFailed, code)
			require.Contains(t, stderr, "--resume continues it")
			code, stdout, stderr := tool(t, "export", dir, path, "--format", format, "--resume")
			require.Equal(t, exitOK, code, stderr)
			require.Contains(t, stdout, "30000 entries exported")
			copied := filepath.Join(home, "db") + string(rune('a'+i))
			if format == formJSON { // frames may be divided at other places
				got, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, want, got, "cut to %d bytes", size)
				continue
			}
			code, _, stderr = tool(t, "import", copied, path)
			require.Equal(t, exitOK, code, stderr)
			code, _, stderr = tool(t, "diff", dir, copied)
			require.Equal(t, exitOK, code, stderr)
		}
	}
}

func TestImportsContinue(t *testing.T) {
	dir := manyKeys(t, 30_000)
	for _, format := range []string{formJSON, formBinary} {
		home := t.TempDir()
		path, copied := filepath.Join(home, "export"), filepath.Join(home, "db")
		code, _, stderr := tool(t, "export", dir, path, "--format", format)
		require.Equal(t, exitOK, code, stderr)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		damaged := bytes.Clone(content)
		damaged[len(damaged)*2/3] = '\n'
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		code, _, stderr = tool(t, "import", copied, path)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, "entries are imported; --resume continues after them")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		code, _, stderr = tool(t, "import", filepath.Join(home, "other"), path, "--resume")
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, "is of another import")
		code, stdout, stderr := tool(t, "import", copied, path, "--resume")
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, "30000 entries imported\n", stdout)
		code, _, stderr = tool(t, "diff", dir, copied)
		require.Equal(t, exitOK, code, stderr)
		entries, err := os.ReadDir(home)
		require.NoError(t, err)
		require.Len(t, entries, 2, "the state of the import is gone")
	}
}

// An interrupted export leaves its file under the other name, and says how to continue.
func TestAnInterruptedExportLeavesAPartialFile(t *testing.T) {
	dir, path := manyKeys(t, 1000), filepath.Join(t.TempDir(), "export")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	code := run(ctx, []string{"export", dir, path, "--format", "binary"}, strings.NewReader(""), io.Discard, &errs)
	require.Equal(t, exitInterrupted, code, errs.String())
	require.Contains(t, errs.String(), "--resume continues it")
	require.NoFileExists(t, path)
	code, stdout, stderr := tool(t, "export", dir, path, "--format", "binary", "--resume")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "1000 entries exported")
	require.NoFileExists(t, path+partialSuffix)
	code, _, stderr = tool(t, "import", filepath.Join(t.TempDir(), "copy"), path)
	require.Equal(t, exitOK, code, stderr)
}
