package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func loadTool(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(input), &out, &errs)
	return code, out.String(), errs.String()
}

func TestLoadTakesWhatScanPrints(t *testing.T) {
	from := newDatabase(t)
	for _, flags := range [][]string{nil, {"--hex"}} {
		code, lines, stderr := tool(t, append(flags, "scan", from)...)
		require.Equal(t, exitOK, code, stderr)
		to := filepath.Join(t.TempDir(), "new")
		code, stdout, stderr := loadTool(t, lines, append(flags, "load", to)...)
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, "3 entries loaded\n", stdout)
		code, again, stderr := tool(t, append(flags, "scan", to)...)
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, lines, again)
	}
}

// With a terminal for input, Ctrl-C had no effect on a load.
func TestALoadThatWaitsForInputCanBeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	ctx, cancel := context.WithCancel(t.Context())
	stdin, in := io.Pipe()
	defer stdin.Close()
	go func() {
		_, _ = io.WriteString(in, "a\t1\nb\t2\n") // without an end; the lines are read before the next step
		cancel()
	}()
	var out, errs bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"load", dir}, stdin, &out, &errs))
	require.Equal(t, "sievedb: interrupted\n", errs.String())
	require.Empty(t, out.String())
	code, scan, _ := tool(t, "scan", dir)
	require.Equal(t, exitOK, code)
	require.Empty(t, scan)
}

func TestLoadTakesAllLinesOrNone(t *testing.T) {
	cases := []struct {
		name, input string
		flags       []string
		code        int
		want        string // of the error
		scan        string
	}{
		{"nothing", "", nil, exitOK, "", ""},
		{"a last line without an end", "a\t1\nb\t", nil, exitOK, "", "a\t1\nb\t\"\"\n"},
		{"quoted parts", "\"a\\tb\"\t\"\\x00\"\n", nil, exitOK, "", "\"a\\tb\"\t\"\\x00\"\n"},
		{"a line without a tab", "a\t1\nb\n", nil, exitFailed, "line 2: want a key, a tab and a value", ""},
		{"a quote that does not end", "\"a\t1\n", nil, exitFailed, "line 1: want", ""},
		{"no hexadecimal", "6x\t61\n", []string{"--hex"}, exitFailed, "line 1: want", ""},
		{"keys that do not rise", "b\t1\nc\t1\na\t1\n", nil, exitFailed, "line 3: load: the key of entry 3 sorts before", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			code, _, stderr := loadTool(t, c.input, append(c.flags, "load", dir)...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
			_, scan, _ := tool(t, "scan", dir)
			require.Equal(t, c.scan, scan)
		})
	}
}
