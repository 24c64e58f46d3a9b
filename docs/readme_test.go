package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// README's table, which cmd/peerbench writes and compares, is of the last run: its conditions and the figures below it
// are those of the page with that run's tables.
func TestReadmesFiguresAreThoseOfTheTables(t *testing.T) {
	run := between(t, read(t, "docs/performance-tables.md"), "<!-- peerbench: begin -->", "<!-- peerbench: end -->")
	conditions, _, _ := strings.Cut(run, "**ops/s, medians**")
	conditions = strings.Join(strings.Fields(conditions), " ")
	above := strings.Join(strings.Fields(between(t, read(t, "README.md"), "One goroutine, unless the row", "<!-- figures: begin -->")), " ")
	facts := regexp.MustCompile(`\d{4}-\d\d-\d\d|\d × [^,]+ with|linux/\w+|\w+ \d+\.\d+\.\d+|\d+ MiB`).FindAllString(above, -1)
	require.Len(t, facts, 8)
	for _, fact := range facts {
		require.Contains(t, conditions, strings.TrimSuffix(strings.Replace(fact, " MiB", ".0 MiB", 1), " with"))
	}
	require.Contains(t, conditions, " 3 rounds.")

	below := between(t, read(t, "README.md"), "<!-- figures: end -->\n", "[All workloads](docs/performance.md)")
	figures := regexp.MustCompile(`\d[\d,.]*\d`).FindAllString(below, -1)
	require.GreaterOrEqual(t, len(figures), 2)
	for _, figure := range figures {
		require.Contains(t, run, "| "+figure+" |")
	}
}

func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, countWords(read(t, "README.md")), 1_100)
}

// README, CONTRIBUTING and the Makefile gave three numbers for one command.
func TestReadmeHasTheTimesOfContributing(t *testing.T) {
	claim := regexp.MustCompile(`less than (\d+) minutes on two processors and 1 GB of caches the first time, then (\d+) minutes`).
		FindStringSubmatch(strings.Join(strings.Fields(read(t, "README.md")), " "))
	row := regexp.MustCompile("(?m)^\\| `make test` \\|.*\\| (\\d+) \\| (\\d+) \\|$").FindStringSubmatch(read(t, "CONTRIBUTING.md"))
	require.NotNil(t, claim)
	require.NotNil(t, row)
	require.Equal(t, row[1:], claim[1:])
	require.NotRegexp(t, `\d+ minutes`, read(t, "Makefile")[:600], "the times are in CONTRIBUTING.md")
}
