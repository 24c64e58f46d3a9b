package columns

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func lines(t *Table, width int) string {
	t.Measure()
	shown := t.Fit(width)
	var all strings.Builder
	for _, row := range append([][]string{t.Heads()}, t.Rows...) {
		all.WriteString(t.Line(shown, row) + "\n")
	}
	return all.String()
}

func TestATableFitsItsWidth(t *testing.T) {
	table := func() *Table {
		return &Table{
			Metric:  Runes,
			Columns: []*Column{NewColumn("node"), NewColumn("~address"), NewColumn("used"), NewColumn("+zone")},
			Rows:    [][]string{{"1", "node-1.example.internal:7001", "3.0 GiB", "rack-1"}, {"22", "b", "-", ""}},
		}
	}
	require.Equal(t, `
node  address                          used  zone
   1  node-1.example.internal:7001  3.0 GiB  rack-1
  22  b                                   -
`, "\n"+lines(table(), 0))
	require.Contains(t, lines(table(), 42), "   1  node-1.exam…al:7001  3.0 GiB  rack-1\n")
	narrow := table()
	require.NotContains(t, lines(narrow, 30), "zone", "a narrow terminal can do without it")
	require.Equal(t, []string{"zone"}, narrow.Hidden(narrow.Fit(30)))
	for line := range strings.Lines(lines(table(), 30)) {
		require.LessOrEqual(t, Runes.Width(strings.TrimSuffix(line, "\n")), 30)
	}
}

func TestLongLinesBreakAtSpacesAndNotBeforeUnits(t *testing.T) {
	require.Equal(t, "some words with\n  12 KiB at the\n  end", Runes.Wrap("some words with 12 KiB at the end", 16, 2))
	require.Equal(t, "short", Runes.Wrap("short", 16, 2))
	require.Equal(t, "abc…z", Runes.Cut("abcdefuvwxyz", 5))
	require.Equal(t, "äö", Runes.Head("äöü", 2))
}
