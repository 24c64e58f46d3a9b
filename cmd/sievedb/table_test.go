package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/report"
)

// onTerminal runs the command on a terminal of this width.
func onTerminal(t *testing.T, width int, args ...string) string {
	t.Helper()
	t.Setenv("NO_COLOR", "1")
	stdout, stderr := wideBuffer{width: width}, bytes.Buffer{}
	code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	require.Contains(t, []int{exitOK, exitNotFound}, code, "%s: %s", args, stderr.String())
	return stdout.String()
}

// Tables were up to 176 columns wide, so each row took two or three lines.
func TestWhatVerbsPrintFitsTheTerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	repo := filepath.Join(t.TempDir(), "repo")
	var args []string
	for _, key := range []string{"a", "customers/2026/anna-maria/orders/000000017", "東京/千代田区/丸の内一丁目/番地九"} {
		args = append(args, key, strings.Repeat("values have words ", 20))
	}
	works(t, "create", dir)
	works(t, append([]string{"put", dir}, args...)...)
	works(t, "flush", dir)
	works(t, "put", dir, "customers/2026/zoe/orders/000000018", strings.Repeat("v", 500))
	works(t, "flush", dir)
	works(t, "put", dir, "later", "x")
	works(t, "backup", dir, repo)
	for _, args := range [][]string{
		{"tables", dir}, {"filters", dir, "--probes", "100"}, {"properties", dir}, {"changes", dir}, {"follow", dir, "-n", "1"}, {"stats", dir}, {"size", dir},
		{"size", dir, "--by-prefix", "--depth", "4"}, {"check", dir}, {"explain", dir, "a"}, {"explain", dir, "none"}, {"plan"}, {"count", dir},
		{"upgrade-filters", dir, "-n"}, {"dump", "--all", dir}, {"backups", repo}, {"verify", repo}, {"prune", repo, "--keep-last", "1", "-n"},
		{"bench", "--num", "10"}, {"compact", dir}, {"delete-range", dir, "a", "b", "-n"}, {"help"}, {"help", "tables"},
	} {
		for line := range strings.Lines(onTerminal(t, 80, args...)) {
			require.LessOrEqual(t, runewidth.StringWidth(strings.TrimSuffix(line, "\n")), 80, "%s: %s", args, line)
		}
	}
	require.Contains(t, onTerminal(t, 300, "tables", dir), "東京/千代田区/丸の内一丁目/番地九", "a wide terminal shows all")
	require.Contains(t, onTerminal(t, 80, "tables", dir, "--record"), "東京/千代田区/丸の内一丁目/番地九", "so does a record")
}

func TestCellsAreCutInTheirMiddle(t *testing.T) {
	for text, want := range map[string]string{"short": "short", "customer-000017": "custo…017", "東京千代田区": "東京…区", "👩‍💻": "👩‍💻"} {
		got := metric.Cut(text, 9)
		require.Equal(t, want, got)
		require.LessOrEqual(t, runewidth.StringWidth(got), 9)
	}
	for width := range 4 {
		require.LessOrEqual(t, runewidth.StringWidth(metric.Cut("customer-000017", width)), max(width, 1))
	}
}

// A table of wide characters was not aligned.
func TestWideCharactersCountTwice(t *testing.T) {
	print := func(o *output) {
		tab := o.table("name", "n")
		tab.row("東京", 1)
		tab.row("ab", 12)
		tab.print()
	}
	require.Equal(t, "name   n\n東京   1\nab    12\n", printed(output{people: true, width: 80}, print))
}

func TestNoMessageSpeaksOfGo(t *testing.T) {
	goNames := `\b(Options|DB|Filters|filter|db)\.[A-Z]|\b(KeepLast|KeepDaily|UpgradeFilters|RangePolicies|LowerBound|Salvage|KeepArchiving)\b|[a-z] (Check|Repair|Compact)\b`
	for _, v := range []report.FilterVerdict{
		report.VerdictDamaged, report.VerdictDenies, report.VerdictUnknown, report.VerdictNoFilter, report.VerdictSaturated, report.VerdictCollisions, report.VerdictHighRate,
		report.VerdictNeverQueried, report.VerdictOff, report.VerdictRangeUnknown, report.VerdictRangeMatchesEmpty, report.VerdictRangeNeverQueried, report.VerdictRangeNotQueried,
	} {
		require.NotRegexp(t, goNames, inVerbs(v.Advice()))
	}
	transcripts, err := filepath.Glob("testdata/*")
	require.NoError(t, err)
	for _, path := range transcripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			require.NotRegexp(t, goNames, line, path)
		}
	}
}

// In an east-asian locale the dots of a cut cell have two columns, which made its table panic.
func TestCellsAreCutInEveryLocale(t *testing.T) {
	before := runewidth.DefaultCondition.EastAsianWidth
	t.Cleanup(func() { runewidth.DefaultCondition.EastAsianWidth = before })
	runewidth.DefaultCondition.EastAsianWidth = true
	for width := 2; width < 40; width++ {
		require.LessOrEqual(t, runewidth.StringWidth(metric.Cut("customers/2026/東京/000017", width)), width)
	}
	text := printed(output{people: true, width: 30}, func(o *output) {
		tab := o.table("~key", "~other")
		tab.row(strings.Repeat("k", 50), "é—“…”±"+strings.Repeat("東", 20))
		tab.print()
	})
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, runewidth.StringWidth(strings.TrimSuffix(line, "\n")), 30)
	}
}
