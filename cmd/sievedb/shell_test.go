package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
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

// offered completes the end of a line of a shell.
func offered(s *session, line string) []string {
	_, candidates, _ := (&app{ctx: context.Background(), session: s}).complete(line, len([]rune(line)))
	return candidates
}

func TestTabOffersVerbsFlagsAndTheirValues(t *testing.T) {
	s := &session{}
	for line, want := range map[string][]string{
		"sc": {"scan "}, "exi": {"exit "}, "scan --rev": {"--reverse "}, "zzz": nil, "scan --ke": {"--key-format ", "--keys-only "}, "rep": nil,
		"help sc": {"scan "}, "export --format b": {"binary "}, "--key-format he": {"hex "}, "--json sc": {"scan "}, "put k v": nil,
	} {
		require.Equal(t, want, offered(s, line), line)
	}
	head, candidates, tail := (&app{session: s}).complete("sc --limit 3", 2)
	require.Equal(t, []any{"", []string{"scan "}, " --limit 3"}, []any{head, candidates, tail})
}

// Keys are offered up to their next separator, like directories, and quoted if they need it.
func TestTabOffersKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	defer store.Close()
	users, err := store.Namespace("users")
	require.NoError(t, err)
	for i := range 300 {
		require.NoError(t, store.Put(fmt.Appendf(nil, "user:%03d:name", i), nil, db.NoSync))
		require.NoError(t, store.Put(fmt.Appendf(nil, "n%03d", i), nil, db.NoSync))
	}
	for _, key := range []string{"uplift", "two words", "tab\tand", "order/1", "\xff"} {
		require.NoError(t, store.Put([]byte(key), nil, db.NoSync))
	}
	require.NoError(t, users.Put([]byte("anna"), nil, db.NoSync))
	s := &session{dir: dir, store: store}
	for line, want := range map[string][]string{
		"get u": {"uplift ", "user:"}, "scan --prefix u": {"uplift ", "user:"}, "get user:00": nil, "put up": {"uplift "}, "put k v tw": nil,
		"put k v o": {"order/"}, "get order/": {"order/1 "}, `get "t`: {`"tab\tand" `, `"two words" `}, `get "two w`: {`"two words" `}, "delete a upl": {"uplift "},
		"get user:299:": {"user:299:name "}, "explain up": {"uplift "}, "delete-range or": {"order/"}, `get "\xf`: nil, `get "\xff`: {`"\xff" `},
	} {
		if line == "get user:00" {
			want = []string{"user:000:", "user:001:", "user:002:", "user:003:", "user:004:", "user:005:", "user:006:", "user:007:", "user:008:", "user:009:"}
		}
		require.Equal(t, want, offered(s, line), line)
	}
	require.Len(t, offered(s, "get n"), maxCandidates)
	s.flags.keyFormat = "hex"
	require.Equal(t, []string{"75706c696674 "}, offered(s, "get 7570"))
	s.flags = globals{namespace: []string{"users"}}
	require.Equal(t, []string{"anna "}, offered(s, "get "))
}

// What is longer than the terminal is high goes through the pager, all of it.
func TestLongOutputGoesThroughThePager(t *testing.T) {
	for lines, paged := range map[int]bool{3: false, 9: false, 10: true, 1000: true} {
		var out, pages bytes.Buffer
		p := newPager(&out)
		p.width, p.height, p.begin = 80, 10, func(io.Writer) (io.WriteCloser, func() error, error) {
			return struct {
				io.Writer
				io.Closer
			}{&pages, io.NopCloser(nil)}, func() error { return nil }, nil
		}
		text := strings.Repeat("line\n", lines)
		for line := range strings.Lines(text) {
			_, err := p.Write([]byte(line))
			require.NoError(t, err)
		}
		p.close()
		if paged {
			require.Equal(t, text, pages.String())
			require.Empty(t, out.String())
		} else {
			require.Equal(t, text, out.String())
			require.Empty(t, pages.String())
		}
	}
}

func TestTheHelpOfAShellIsItsOwn(t *testing.T) {
	dir := newDatabase(t)
	var stdout bytes.Buffer
	code := run(t.Context(), []string{"shell", dir}, strings.NewReader("help\nhelp get\n"), &stdout, io.Discard)
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout.String(), "Ctrl-R")
	require.Contains(t, stdout.String(), "Usage:\n  get KEY... [flags]")
	require.NotContains(t, stdout.String(), "DIR")
	require.NotContains(t, stdout.String(), "  repair ")
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
		h.add(line)
	}
	h = openHistory()
	require.Equal(t, []string{"get a", "get b"}, h.lines)
	info, err := os.Stat(filepath.Join(home, "sievedb", "history"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "keys may be secret")
	for range maxHistory {
		h.add("x" + time.Now().String())
	}
	require.Len(t, openHistory().lines, maxHistory)
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
