package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cancelAfter cancels when so many bytes were written to it.
type cancelAfter struct {
	cancel func()
	left   int
}

func (c *cancelAfter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left <= 0 {
		c.cancel()
	}
	return len(p), nil
}

// Without input or at the first Ctrl-C, every verb that reads standard input ends. With a terminal for input, Ctrl-C
// had no effect on a load.
func TestVerbsThatReadInputCanBeInterrupted(t *testing.T) {
	loaded := filepath.Join(t.TempDir(), "loaded")
	for _, args := range [][]string{
		{"get", newDatabase(t), "-"}, {"has", newDatabase(t), "-"}, {"delete", newDatabase(t), "-"}, {"put", newDatabase(t), "key", "-"},
		{"load", loaded}, {"import", filepath.Join(t.TempDir(), "db")}, {"ingest", filepath.Join(t.TempDir(), "db"), "-"},
		{"shell", newDatabase(t)},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin, in := io.Pipe()
		lines := "\n"
		if args[0] == "load" {
			lines = "a\t1\nb\t2\n"
		}
		go func() {
			_, _ = io.WriteString(in, lines) // they are read before the next step
			cancel()
		}()
		var out, errs bytes.Buffer
		code := run(ctx, args, stdin, &out, &errs)
		if slices.Contains([]string{"get", "has", "load", "shell"}, args[0]) {
			require.Equal(t, exitInterrupted, code, "%s: %s", args, errs.String())
		} else {
			require.NotEqual(t, exitOK, code, "%s: %s", args, errs.String())
		}
		require.NoError(t, stdin.Close())
	}
	require.Empty(t, works(t, "scan", loaded))
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
	require.Contains(t, works(t, "check", dir), "20000 entries")

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	workloads["interrupted"] = func(b *bencher, i int) (int, error) {
		if i == 2000 {
			cancel()
		}
		return b.put(i)
	}
	defer delete(workloads, "interrupted")
	var out bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"bench", "--json", "--num", "9000", "--workloads", "fillseq,interrupted,readrandom"},
		strings.NewReader(""), &out, io.Discard))
	require.Regexp(t, `(?s)"fillseq".*"operations": 9000.*"interrupted".*"operations": 2048`, out.String())
}

func manyKeys(t *testing.T, n int) string {
	var lines strings.Builder
	for i := range n {
		lines.WriteString(string(benchKey(i)) + "\tvalue\n")
	}
	dir := filepath.Join(t.TempDir(), "db")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"load", dir}, strings.NewReader(lines.String()), &out, &errs), errs.String())
	return dir
}

// An export that was cut anywhere continues to the same file as one that was not interrupted.
func TestExportsContinue(t *testing.T) {
	dir := manyKeys(t, 30_000)
	for _, format := range []string{formJSON, formBinary} {
		home := t.TempDir()
		whole := filepath.Join(home, "whole")
		works(t, "export", dir, whole, "--format", format)
		want, err := os.ReadFile(whole)
		require.NoError(t, err)
		for i, size := range []int{0, 1, 20, len(want) / 2, len(want)/2 + 1, len(want) - 1, len(want)} {
			path := filepath.Join(home, "export") + string(rune('a'+i))
			require.NoError(t, os.WriteFile(path+partialSuffix, want[:size], 0o600))
			require.Contains(t, fails(t, exitFailed, "export", dir, path), "--resume continues it")
			require.Contains(t, works(t, "export", dir, path, "--format", format, "--resume"), "30000 entries exported")
			copied := filepath.Join(home, "db") + string(rune('a'+i))
			if format == formJSON { // frames may be divided at other places
				got, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, want, got, "cut to %d bytes", size)
				continue
			}
			works(t, "import", copied, path)
			works(t, "diff", dir, copied)
		}
	}
}

func TestImportsContinue(t *testing.T) {
	dir := manyKeys(t, 30_000)
	for _, format := range []string{formJSON, formBinary} {
		home := t.TempDir()
		path, copied := filepath.Join(home, "export"), filepath.Join(home, "db")
		works(t, "export", dir, path, "--format", format)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		damaged := bytes.Clone(content)
		damaged[len(damaged)*2/3] = '\n'
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		require.Contains(t, fails(t, exitFailed, "import", copied, path), "entries; --resume continues after them")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		other := filepath.Join(home, "other")
		require.Contains(t, fails(t, exitFailed, "import", other, path, "--resume"), "is of another import")
		require.Equal(t, "30000 entries imported\n", works(t, "import", copied, path, "--resume"))
		works(t, "diff", dir, copied)
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
	require.Contains(t, works(t, "export", dir, path, "--format", "binary", "--resume"), "1000 entries exported")
	require.NoFileExists(t, path+partialSuffix)
	works(t, "import", filepath.Join(t.TempDir(), "copy"), path)
}
