package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	require.NotRegexp(t, `\d[\d,.]*\d`, below, "figures are in the tables, which cmd/peerbench writes")
}

// cmd/peerbench checks that the ranges of pages are those of these runs.
func TestKeptRunsNameTheirMachines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/runs/*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	machines := map[string]string{}
	for _, file := range files {
		var run struct {
			Conditions struct {
				Date, Kernel, Processor string
				Memory                  uint64 `json:"memory_bytes"`
			}
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Less(t, len(text), 60_000, file)
		require.NoError(t, json.Unmarshal(text, &run), file)
		c := run.Conditions
		require.NotEmpty(t, c.Kernel, file)
		require.NotEmpty(t, c.Processor, file)
		machine := fmt.Sprint(c.Processor, " ", c.Kernel, " ", c.Memory>>30)
		require.Empty(t, machines[machine], "%s is of the same machine", file)
		machines[machine] = file
		name := regexp.MustCompile(`^(\d{4}-\d\d-\d\d)-\w+-(\d+\.\d+)(?:-\w+)?\.json$`).FindStringSubmatch(filepath.Base(file))
		require.NotNil(t, name, "%s is not named by date, processor and kernel", file)
		require.True(t, strings.HasPrefix(c.Date, name[1]) && strings.HasPrefix(c.Kernel, name[2]), file)
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
