package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cmd/internal/chart"
)

// requireRedrawn requires that dir has the charts of a run, and that --from draws the same ones from
// its JSON and from its tables.
func requireRedrawn(t *testing.T, dir string, charts ...string) {
	t.Helper()
	for _, source := range []string{"run.json", "run.md"} {
		again := t.TempDir()
		from := filepath.Join(dir, source)
		if source == "run.md" { // a new page has no marks
			tables := textIn(t, from)
			from = filepath.Join(again, "page.md")
			begin, end := markBegin, markEnd
			if charts[0] == "scale" {
				begin, end = scaleBegin, scaleEnd
			}
			require.NoError(t, os.WriteFile(from, []byte("# A page\n\n"+begin+"\n"+tables+end+"\n"), 0o644))
		}
		status, stdout, stderr := peerbench(t, "--from="+from, "--svg="+filepath.Join(again, "run"))
		require.Equal(t, exitOK, status, stderr)
		require.Empty(t, stdout)
		for _, name := range charts {
			svg := "run-" + name + ".svg"
			require.Equal(t, textIn(t, filepath.Join(dir, svg)), textIn(t, filepath.Join(again, svg)), "%s from %s", name, source)
		}
	}
}

func TestTablesAreReadAsTheyAreWritten(t *testing.T) {
	for _, rep := range []*report{sample(), scaleSample()} {
		want := rep.page()
		require.Equal(t, want, readPage(want.markdown()))
	}
	require.Equal(t, 1234567.5, parsedCell("1,234,567.5"))
	require.True(t, math.IsNaN(parsedCell("n/a")))
}

func TestAPageCanHaveARunAndSizes(t *testing.T) {
	one, two := sample().page(), scaleSample().page()
	text := "# A page\n" + markBegin + one.markdown() + markEnd + "\nbetween\n" + scaleBegin + two.markdown() + scaleEnd + "\n**after**\n"
	require.Equal(t, []*page{one, two}, readTables(text))
	require.Empty(t, readTables("**a table**\n\n| engine | ops/s |\n"), "no marks")
	require.Empty(t, readTables(markBegin+"**a table**"), "no end")
}

// The chart of sizes shows other engines where there are figures of them.
func TestTheChartOfSizesHasOtherEngines(t *testing.T) {
	text := scaleBegin + scaleSample().page().markdown() + scaleEnd + "\n" + othersBegin + "\n| keys | engine | ops/s, settled |\n| --: | --- | --: |\n" +
		"| 2,000 | " + ourTitle + " | 100,000 |\n| 2,000 | Pebble † | 50,000 |\n| 2,000 | RocksDB | n/a |\n\n" + othersEnd + "\n"
	pages := readTables(text)
	require.Len(t, pages, 1)
	require.Equal(t, []chart.NamedPoint{{X: 2000, Y: 20, Name: "Pebble †"}}, pages[0].otherFills())
	drawn := string(pages[0].drawings()[scaleSVG])
	require.Contains(t, drawn, ">Pebble †</text>")
	require.Contains(t, drawn, "Rings: the same fill")
	require.Contains(t, drawn, "Pebble †, 2,000 keys filled: 20")
	require.NotContains(t, string(scaleSample().page().drawings()[scaleSVG]), "Rings")
}

// docs/performance.md says how to draw them again.
func TestTheChartsOfTheDocumentationShowItsTables(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	pages := readTables(textIn(t, filepath.Join(docs, "performance-tables.md")))
	require.Len(t, pages, 2)
	for _, p := range pages {
		for ending, want := range p.drawings() {
			require.Equal(t, string(want), textIn(t, filepath.Join(docs, "performance"+ending)), ending)
		}
	}
	kept, err := readRuns(filepath.Join(docs, "runs"))
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(kept, func(rep *report) bool { return rep.lines()[0] == pages[0].lines[0] }),
		"a kept run is that of the tables")
	for page, write := range map[string]func(string, []*page, keptRuns) error{
		filepath.Join(docs, "performance.md"): writeSummary, filepath.Join(docs, "..", "README.md"): writeReadme,
	} {
		want, name := textIn(t, page), filepath.Join(t.TempDir(), "page.md")
		require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		require.NoError(t, write(name, pages, kept))
		require.Equal(t, want, textIn(t, name), page)
	}
}

// README called figures the best that other engines of the same run exceed, or that another round exceeds.
func TestReadmesTableHasInBoldWhatAllRoundsShow(t *testing.T) {
	w := &table{title: "overwrite", head: []string{"engine", "ops/s", "min–max", "p99.99"}, rows: [][]string{
		{"SieveDB", "1,000", "990–1,010", "5.00"}, {"SieveDB, buffered †", "1,300", "980–1,400", "1.00"}, {"Pebble †", "2,000", "1,900–2,100", "7.00"},
		{"goleveldb", "900", "800–950", "4.00"}, {"Badger", "n/a", "n/a", "4.00"}, {"bbolt", "10", "9–11", "6.00"}, {"LevelDB", "1,700", "1,500–1,800", "1.00"},
	}}
	row := &readmeRow{"rates", "overwrite", "ops/s", false, false}
	bold := func() string {
		cells, err := row.cells(w, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"rates (`overwrite`)", "1,000", "900"}, cells[:3])
		require.Equal(t, []string{"n/a", "10", "0.50×"}, cells[4:])
		return cells[3]
	}
	require.Equal(t, "**2,000** †", bold())
	w.rows[6][2] = "1,500–1,950"
	require.Equal(t, "2,000 †", bold(), "a round of an engine without a column was faster than one of the best")
	w.rows[6][2] = "1,500–1,800"
	slower := assemble(&config{Engines: []string{"Pebble", "LevelDB"}}, conditions{}, []*result{
		{Engine: "Pebble", Workload: "overwrite", OpsPerSec: 1}, {Engine: "LevelDB", Workload: "overwrite", OpsPerSec: 2},
	})
	cells, err := row.cells(w, keptRuns{slower})
	require.NoError(t, err)
	require.Equal(t, "2,000 †", cells[3], "LevelDB was faster on another machine")
	w.rows[1][2] = "980–1,900"
	cells, err = row.cells(w, nil)
	require.NoError(t, err)
	require.Equal(t, "2,000 †", cells[3], "a round of the same code was as fast")
	row.words, row.column, row.least = "waits", "p99.99", true
	cells, err = row.cells(w, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"waits (`overwrite`)", "5.00", "7.00"}, []string{cells[0], cells[1], cells[3]})
	row.column = "disk MB"
	_, err = row.cells(w, nil)
	require.ErrorContains(t, err, `has no column "disk MB"`)
}

// A run of the workloads that exist now has all of README's rows, one of older workloads those that are not newer.
func TestReadmesRowsAreOfWorkloads(t *testing.T) {
	var now, older page
	for _, r := range readmeRows {
		name, _, _ := strings.Cut(r.workload, ",")
		_, ok := findWorkload(name)
		require.True(t, ok, r.workload)
		w := table{title: r.workload, head: []string{engineColumn, opsColumn, roundsColumn, "p99.99", "write amp.", peakColumn, "disk MB"}}
		for _, engine := range readmeEngines {
			w.rows = append(w.rows, []string{engine, "1", "1–1", "2", "3", "4", "5"})
		}
		if now.tables = append(now.tables, w); !r.newer {
			older.tables = append(older.tables, w)
		}
	}
	written := func(p *page) (string, error) {
		name := filepath.Join(t.TempDir(), "page.md")
		require.NoError(t, os.WriteFile(name, []byte(readmeBegin+readmeEnd), 0o644))
		err := writeReadme(name, []*page{p}, nil)
		return textIn(t, name), err
	}
	text, err := written(&now)
	require.NoError(t, err)
	for _, r := range readmeRows {
		require.Contains(t, text, "\n| "+r.words+" (`"+r.workload+"`) | ")
	}
	text, err = written(&older)
	require.NoError(t, err)
	require.Contains(t, text, "`seekrandom`")
	require.NotContains(t, text, "`seekrandom-cacheall`")
	_, err = written(&page{tables: older.tables[1:]})
	require.ErrorContains(t, err, `the run has no workload "readmissing"`)
}

func TestTheThroughputChartHasAPanelForEachWorkload(t *testing.T) {
	cfg := &config{Engines: []string{"sievedb", "pebble"}, Num: 1000, Rounds: 1}
	rep := newReport(cfg, time.Unix(0, 0), allDrivers, []*result{
		{Engine: "sievedb", Workload: "readrandom", Threads: 1, Ops: 1_000_000, OpsPerSec: 2_345_678, CPUSeconds: 0.5},
		{Engine: "pebble", Workload: "readrandom", Threads: 1, Ops: 1_000_000, OpsPerSec: 98_765, CPUSeconds: 4},
		{Engine: "sievedb", Workload: "fillrandom", Threads: 16, Ops: 1, OpsPerSec: 500},
	})
	rates := rep.page().throughput()
	require.Equal(t, []string{"SieveDB", "Pebble"}, rates.Rows)
	require.Equal(t, 0, rates.Strong)
	require.Equal(t, "readrandom: SieveDB 2.35 M, Pebble 99 k. fillrandom, 16 writers: SieveDB 500.", rates.Desc())
	require.Equal(t, "readrandom: SieveDB 0.5000, Pebble 4.00.", rep.page().cost().Desc())
}

func TestTheSummaryShowsTheBestOtherEngine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+summaryBegin+summaryEnd+"\nafter\n"), 0o644))
	require.NoError(t, writeSummary(name, []*page{sample().page()}, nil))
	text := textIn(t, name)
	require.Contains(t, text, "\n| readrandom | 20 | 8, bbolt | 2.50× | 3.00 | 2.00 | 150 | 200 |\n")
	require.Regexp(t, `^before\n(.*\n)*after\n$`, text)
}

func TestCompactCounts(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 9.5: "9.50", 3435: "3,435", 9_994: "9,994", 27_400: "27 k", 999_499: "999 k", 999_501: "1 M", 4_329_643: "4.33 M", 13_721_176: "13.7 M"} {
		require.Equal(t, want, compact(v))
	}
}

func TestFromSaysWhatItNeeds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	tables := markBegin + sample().page().markdown() + markEnd
	for _, test := range []struct{ content, flag, want string }{
		{"text", "", "--from needs --json, --medians, --markdown, --summary, --readme or --svg"},
		{"text", "--svg=x", "is not a file of --json, and has no tables"},
		{tables, "--markdown=x", "--markdown needs a file of --json, after that of tables if they are to be kept"},
		{tables, "--json=x", "--json needs files of --json, not one of tables"},
		{"{", "--svg=x", "file: unexpected end of JSON"},
		{`{"version": 2, "program": "dbbench"}`, "--svg=x", `has version 2 of program "dbbench"; version 1 of peerbench is supported`},
	} {
		require.NoError(t, os.WriteFile(name, []byte(test.content), 0o644))
		args := []string{"--from=" + name}
		if test.flag != "" {
			args = append(args, test.flag)
		}
		status, _, message := peerbench(t, args...)
		require.Equal(t, exitFailed, status)
		require.Contains(t, message, test.want)
	}
}
