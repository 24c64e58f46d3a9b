package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressIsForTerminalsOnly(t *testing.T) {
	var b strings.Builder
	now := time.Unix(1000, 0)
	p := (&app{stderr: &b, now: time.Now}).progressTo("counting", "key", 10)
	p.add(1, 1)
	p.close()
	require.Empty(t, b.String())
	p = &progress{w: &b, name: "exporting", unit: "entry", began: now, now: func() time.Time { return now }}
	p.part = func() float64 { return float64(p.done) / 2000 }
	p.add(64, 100)
	require.Empty(t, b.String(), "short work shows nothing")
	now = now.Add(time.Second)
	p.add(936, 1<<20)
	require.Contains(t, b.String(), "exporting: 50 %, 1,000 entries, 1.0 MiB, 1.0 MiB/s")
	p.close()
	require.True(t, strings.HasSuffix(b.String(), "\r\x1b[K"), "the line is removed")
}

func TestWordsOfTheShell(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       nil,
		"  # comment":            nil,
		"get a":                  {"get", "a"},
		`put "a\x00b" 'c "d\' e`: {"put", "a\x00b", `c "d\`, "e"},
		"scan\t--limit 1\r":      {"scan", "--limit", "1"},
		`put "a\"b" ""`:          {"put", `a"b`, ""},
	} {
		words, err := splitWords(line)
		require.NoError(t, err, line)
		require.Equal(t, want, words, line)
	}
	for _, line := range []string{`get "a`, `get 'a`, `get "a\q"`} {
		_, err := splitWords(line)
		require.Error(t, err, line)
	}
}

func TestTabCompletesVerbsAndFlags(t *testing.T) {
	a := &app{}
	for line, want := range map[string]string{
		"sc": "scan ", "upg": "upgrade-filters ", "ex": "ex", "exi": "exit", "scan --rev": "scan --reverse ", "zzz": "zzz", "scan --ke": "scan --key", "scan --keys": "scan --keys-only ",
	} {
		got, pos, ok := a.complete(line, len(line), '\t')
		require.True(t, ok)
		require.Equal(t, want, got)
		require.Equal(t, len(want), pos)
	}
	_, _, ok := a.complete("s", 1, 'c')
	require.False(t, ok)
}

func TestShellsOfOtherProgramsComplete(t *testing.T) {
	require.Contains(t, works(t, "__complete", "sc"), "scan\tPrint keys and values in order\n")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, works(t, "completion", shell), "sievedb")
	}
}

func TestHistoryIsKept(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	h := openHistory()
	for _, line := range []string{"get a", "get a", " ", "get b"} {
		h.Add(line)
	}
	h = openHistory()
	require.Equal(t, 2, h.Len())
	require.Equal(t, "get b", h.At(0))
	require.Equal(t, "get a", h.At(1))
	info, err := os.Stat(filepath.Join(home, "sievedb", "history"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "keys may be secret")
	for range maxHistory {
		h.Add("x" + time.Now().String())
	}
	require.Equal(t, maxHistory, openHistory().Len())
}

// SIGTERM did not end a shell that waited for a line on a terminal.
func TestAPromptEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	line, err := orEnd(ctx, func() (string, error) { return "get a", nil })
	require.NoError(t, err)
	require.Equal(t, "get a", line)
	wait := make(chan struct{})
	defer close(wait)
	_, err = orEnd(ctx, func() (string, error) { cancel(); <-wait; return "", nil })
	require.ErrorIs(t, err, context.Canceled)
}
