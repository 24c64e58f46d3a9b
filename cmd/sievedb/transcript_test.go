package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

var rewrite = flag.Bool("transcripts.rewrite", false, "write the present output into the transcripts; review the difference")

// TestTranscripts runs the commands in testdata/*.txt, each file in an empty directory, and compares what
// they print. A file has these lines:
//
//	# a comment                       stays
//	$ get db key                      runs 'sievedb get db key'; words as in the shell verb
//	$ put db key - < "standard input" gives it standard input
//	@golden NAME DIR                  copies a golden database
//	@open DIR, @close                 open a database as another process would, with a write
//	@mkdir DIR                        makes an empty directory
//	@terminal WIDTH                   prints as on a terminal of this width, 0 for none
//	@flip FILE OFFSET, @cut FILE SIZE, @remove FILE   damage files
//
// What a command prints follows it: standard output, then standard error with "! ", then the exit code
// in brackets if it is not 0. Times and other figures that change are masked.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	golden, err := filepath.Abs("../../testdata/golden")
	require.NoError(t, err)
	for _, path := range paths {
		path, err := filepath.Abs(path)
		require.NoError(t, err)
		t.Run(filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			temp, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			t.Chdir(temp)
			t.Setenv("NO_COLOR", "1")
			s := &script{t: t, golden: golden, temp: temp}
			got := s.run(string(want))
			if *rewrite {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

// Every verb is in a transcript, apart from its help.
func TestEveryVerbIsInATranscript(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	used := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "$" && !strings.Contains(line, "--help") {
				used[words[1]] = true
			}
		}
	}
	for _, v := range verbsOf(t) {
		require.True(t, used[v.name()], "%s is in no transcript", v.name())
	}
}

// TestHelp compares the help of all verbs with testdata/help.
func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, args := range append(helpArgs(t), []string{"help"}, []string{"help", "exit-codes"}) {
		code, stdout, stderr := tool(t, args...)
		require.Equal(t, exitOK, code)
		require.Empty(t, stderr)
		fmt.Fprintf(&all, "$ %s\n%s\n", strings.Join(args, " "), stdout)
		for line := range strings.Lines(stdout) {
			require.LessOrEqual(t, runewidth.StringWidth(strings.TrimSuffix(line, "\n")), 80, "%s: a line is too long for a terminal: %s", args, line)
		}
	}
	const path = "testdata/help"
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(all.String()), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), all.String())
}

func helpArgs(t *testing.T) (all [][]string) {
	for _, v := range verbsOf(t) {
		all = append(all, []string{v.name(), "--help"})
	}
	return all
}

// script runs one transcript.
type script struct {
	t      *testing.T
	golden string
	temp   string
	store  *db.DB
	width  int // of the terminal; 0: none
}

// wideBuffer is a terminal in memory.
type wideBuffer struct {
	bytes.Buffer
	width int
}

// Width makes terminalWidth take it for a terminal, unless it is 0.
func (w *wideBuffer) Width() int { return w.width }

func (s *script) run(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "$ "):
			out.WriteString(line + "\n" + s.command(line[2:]))
		case strings.HasPrefix(line, "@"):
			out.WriteString(line + "\n")
			s.step(strings.Fields(line[1:]))
		case strings.HasPrefix(line, "#"), line == "":
			out.WriteString(line + "\n")
		}
	}
	if s.store != nil {
		require.NoError(s.t, s.store.Close())
	}
	return out.String()
}

func (s *script) command(line string) string {
	stdin := ""
	if command, input, ok := strings.Cut(line, " < "); ok {
		var err error
		stdin, err = strconv.Unquote(input)
		require.NoError(s.t, err, line)
		line = command
	}
	words, err := splitWords(line)
	require.NoError(s.t, err, line)
	stdout, stderr := wideBuffer{width: s.width}, bytes.Buffer{}
	code := run(s.t.Context(), words, strings.NewReader(stdin), &stdout, &stderr)
	out := stdout.String()
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "(no line end)\n"
	}
	for l := range strings.Lines(stderr.String()) {
		out += "! " + l
	}
	out = strings.ReplaceAll(out, s.temp, "TEMP")
	if code != 0 {
		out += fmt.Sprintf("[%d]\n", code)
	}
	lines := strings.Split(mask(out), "\n")
	for i := range lines[:len(lines)-1] {
		if lines[i] == "" {
			lines[i] = emptyLine // a transcript has empty lines of its own
		}
	}
	return strings.Join(lines, "\n")
}

const emptyLine = "(empty line)"

func (s *script) step(words []string) {
	switch words[0] {
	case "golden":
		require.NoError(s.t, os.CopyFS(words[2], os.DirFS(filepath.Join(s.golden, words[1], "db"))))
	case "open":
		var err error
		s.store, err = db.Open(words[1], nil)
		require.NoError(s.t, err)
		require.NoError(s.t, s.store.Put([]byte("live"), []byte("just written"), nil))
	case "close":
		require.NoError(s.t, s.store.Close())
		s.store = nil
	case "terminal":
		var err error
		s.width, err = strconv.Atoi(words[1])
		require.NoError(s.t, err)
	case "mkdir":
		require.NoError(s.t, os.Mkdir(words[1], 0o700))
	case "remove":
		require.NoError(s.t, os.Remove(words[1]))
	case "flip", "cut":
		b, err := os.ReadFile(words[1])
		require.NoError(s.t, err)
		at, err := strconv.Atoi(words[2])
		require.NoError(s.t, err)
		if words[0] == "cut" {
			b = b[:at]
		} else {
			b[at] ^= 0x40
		}
		require.NoError(s.t, os.WriteFile(words[1], b, 0o600))
	default:
		s.t.Fatalf("unknown step %q", words)
	}
}

// masks replace what differs from run to run.
var masks = []struct{ pattern, with string }{
	{`\d{8}T\d{6}\.\d+Z-[0-9a-f]+|\d{8}-\d{6}[-.][0-9a-f]+|\d{8}T\d{6}Z?-[0-9a-z]+`, "ID"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
	{`(?m)^\d\d:\d\d:\d\d`, "TIME"},
	{`("\w*Nanos": ?)\d+`, "${1}0"},
	{`(?m)^(time\t)[\d.]+\S*$`, "${1}DURATION"},
	{`\b\d+(\.\d+)?(ns|µs|ms)\b`, "DURATION"},
	{`("perSecond": ?|"microsPerOp": ?|"bytesPerSecond": ?)[\d.e+]+`, "${1}0"},
	{`(?m)^((?:fill|read)\w+\t\d+\t)\d+\t[\d.]+\t\d+`, "${1}N\tN\tN"},
	{`(?m)^((?:version|go|system|revision)\t).*$`, "${1}…"},
	{`"(version|go|system|revision)": "[^"]*"`, `"$1": "…"`},
}

func mask(text string) string {
	for _, m := range masks {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.with)
	}
	return text
}
