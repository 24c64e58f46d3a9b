package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cells returns the cells of a row of a table.
func cells(row string) []string {
	all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|")
	for i := range all {
		all[i] = strings.Trim(all[i], " *")
	}
	return all
}

// measured returns the rates of a workload by engine, from the first table of rates of the page that has its row.
func measured(t *testing.T, page, workload string) map[string]string {
	t.Helper()
	var head []string
	for row := range strings.Lines(page) {
		row = strings.TrimSpace(row)
		switch c := cells(row); {
		case !strings.HasPrefix(row, "|"):
			head = nil
		case head == nil:
			head = c
		case c[0] == workload && (head[0] == "workload" || head[0] == "ops/s"):
			rates := map[string]string{}
			for i, engine := range head {
				rates[strings.TrimRight(engine, " †")] = c[i]
			}
			return rates
		}
	}
	require.Fail(t, "no table has the workload", workload)
	return nil
}

var workloadName = regexp.MustCompile("\\(`([^`]+)`\\)")

// README had rates of other runs than the page about performance.
func TestReadmesFiguresAreThoseOfTheTables(t *testing.T) {
	page, readme := read(t, "docs/performance-tables.md"), read(t, "README.md")
	table := between(t, readme, "<!-- figures: begin -->\n\n", "\n<!-- figures: end -->")
	var head []string
	rows := 0
	for row := range strings.Lines(table) {
		c := cells(strings.TrimSpace(row))
		if head == nil {
			head = c
			continue
		}
		m := workloadName.FindStringSubmatch(c[0])
		if m == nil {
			continue // the line below the head
		}
		rows++
		rates := measured(t, page, m[1])
		for i, engine := range head[1:] {
			require.Equal(t, rates[strings.TrimRight(engine, " †")], c[i+1], "%s of %s", m[1], engine)
		}
	}
	require.GreaterOrEqual(t, rows, 10)

	// Each other figure of the paragraph below the table is in the tables too.
	below := between(t, readme, "<!-- figures: end -->\n", "[All workloads](docs/performance.md)")
	figures := regexp.MustCompile(`\d[\d,.]*\d`).FindAllString(below, -1)
	require.GreaterOrEqual(t, len(figures), 5)
	for _, figure := range figures {
		if !slices.Contains([]string{"10,000"}, figure) { // p99.99 in words
			require.True(t, strings.Contains(page, "| "+figure+" |"), figure)
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, countWords(read(t, "README.md")), 1_100)
}
