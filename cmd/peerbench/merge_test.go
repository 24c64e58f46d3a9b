package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// completeRun is a run of workloads by the engines of cfg, each twice.
func completeRun(date int64, cfg config, rate float64, workloads ...string) *jsonFile {
	cfg.Rounds = 2
	var results []*result
	for round := range cfg.Rounds {
		for _, w := range workloads {
			for _, e := range cfg.Engines {
				results = append(results, &result{Engine: e, Workload: w, Threads: 1, Round: round, Ops: 1, OpsPerSec: rate})
			}
		}
	}
	cfg.Workloads = workloads
	rep := newReport(&cfg, time.Unix(date, 0), allDrivers, results)
	return &jsonFile{Version: jsonVersion, Program: "peerbench", Conditions: rep.conditions, Settings: &cfg, Complete: true, Results: results}
}

// setInfo replaces what the run says of an engine.
func setInfo(f *jsonFile, info engineInfo) {
	c := &f.Conditions
	c.Engines = slices.DeleteFunc(c.Engines, func(e engineInfo) bool { return e.Name == info.Name })
	c.Engines = append(c.Engines, info)
}

func TestALaterRunReplacesItsRowsAndAddsOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, f *jsonFile) string { return writeResults(t, dir, name, f) }
	both, one := config{Engines: []string{"sievedb", "bbolt"}}, config{Engines: []string{"sievedb"}}
	first := write("first.json", completeRun(0, both, 10, "readrandom", "readseq", "readreverse"))
	second := write("second.json", completeRun(60, one, 20, "readseq-cacheall", "readrandom"))
	third := write("third.json", completeRun(120, config{Engines: []string{"bbolt", "pebble"}}, 30, "readseq"))
	at := func(name string) string { return filepath.Join(dir, name) }
	status, stdout, stderr := peerbench(t, "--from="+first+","+second+","+third, "--json="+at("all.json"), "--markdown="+at("all.md"))
	require.Equal(t, exitOK, status, stderr)
	require.Empty(t, stdout)

	merged := resultsIn(t, at("all.json"))
	require.Equal(t, []string{"sievedb", "bbolt", "pebble"}, merged.Settings.Engines)
	rep := assemble(merged.Settings, merged.Conditions, merged.Results)
	require.Equal(t, [][]string{
		{"readrandom", "20", "10", "n/a", "2.00×", "n/a"},
		{"readseq", "10", "30", "30", "0.33×", "0.33×"},
		{"readreverse", "10", "10", "n/a", "1.00×", "n/a"},
		{"readseq-cacheall", "20", "n/a", "n/a", "n/a", "n/a"},
	}, rep.tables()[0].rows)
	for _, r := range rep.rows {
		for e, results := range r.cells {
			require.Len(t, results, 2, "%s of %s", r.workload, e)
		}
	}
	lines := rep.lines()
	require.Contains(t, lines[1], "Measured at 1970-01-01T00:01:00Z, with go")
	require.Contains(t, lines[1], ": readseq-cacheall, readrandom of SieveDB.")
	require.Contains(t, lines[2], ": readseq of bbolt, Pebble.")

	// A file that was merged before can be merged again.
	status, _, stderr = peerbench(t, "--from="+at("all.json")+","+second, "--markdown="+at("again.md"))
	require.Equal(t, exitOK, status, stderr)
	pages := []*page{readPage(textIn(t, at("all.md"))), readPage(textIn(t, at("again.md")))}
	require.Equal(t, pages[0].tables, pages[1].tables)
	require.Len(t, pages[1].lines, len(pages[0].lines)+1)
}

func TestRunsThatAreNotComparableAreNotMerged(t *testing.T) {
	cfg := config{Engines: []string{"sievedb", "pebble"}, Num: 1000}
	fresh := func() *jsonFile { return completeRun(0, cfg, 10, "readrandom") }
	require.NoError(t, fresh().merge(fresh()))
	for want, change := range map[string]func(f *jsonFile){
		"num is 2000 there and 1000 here":                func(f *jsonFile) { f.Settings.Num = 2000 },
		"rounds is 3 there and 2 here":                   func(f *jsonFile) { f.Settings.Rounds = 3 },
		"cache_bytes is 1 there and 0 here":              func(f *jsonFile) { f.Settings.CacheBytes = 1 },
		"scale is [5] there and [] here":                 func(f *jsonFile) { f.Settings.Scale = []int{5} },
		"processors is 99 there":                         func(f *jsonFile) { f.Conditions.Processors = 99 },
		"Pebble is version other there":                  func(f *jsonFile) { setInfo(f, engineInfo{Name: "pebble", Title: "Pebble", Version: "other"}) },
		"an error ended one of the runs":                 func(f *jsonFile) { f.Complete = false },
		"processor is another processor there and":       func(f *jsonFile) { f.Conditions.Processor = "another processor" },
		"key_shape is random there and counter here":     func(f *jsonFile) { f.Settings.KeyShape = randomKeys },
		"value_size is 1 there and 0 here":               func(f *jsonFile) { f.Settings.ValueSize = 1 },
		"open_files is 500 there and 0 here":             func(f *jsonFile) { f.Settings.OpenFiles = 500 },
		"reads is 7 there and 0 here":                    func(f *jsonFile) { f.Settings.Reads = 7 },
		"os is plan9 there and " + fresh().Conditions.OS: func(f *jsonFile) { f.Conditions.OS = "plan9" },
	} {
		one, other := fresh(), fresh()
		one.Settings.KeyShape, other.Settings.KeyShape = counterKeys, counterKeys
		change(other)
		require.ErrorContains(t, one.merge(other), want)
	}
}

// An engine that an earlier program did not have is in the merged run.
func TestAnEngineThatWasLeftOutIsAdded(t *testing.T) {
	first, second := completeRun(0, config{Engines: []string{"sievedb"}}, 10, "readseq"), completeRun(0, config{Engines: []string{"sievedb"}}, 10, "readseq")
	setInfo(first, engineInfo{Name: "lmdb", Title: "LMDB", LeftOut: "built without it"})
	setInfo(second, engineInfo{Name: "lmdb", Title: "LMDB", Version: "0.9"})
	second.Settings.Engines = []string{"lmdb"}
	for _, r := range second.Results {
		r.Engine = "lmdb"
	}
	require.NoError(t, first.merge(second))
	require.Equal(t, []string{"sievedb", "lmdb"}, first.Settings.Engines)
	require.Empty(t, first.Conditions.about("lmdb").LeftOut)
	require.Equal(t, "0.9", first.Conditions.about("lmdb").Version)
	require.Len(t, first.Results, 4)
}

func TestALaterRunReplacesTablesOfAPage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	both := config{Engines: []string{"sievedb", "bbolt"}}
	old := completeRun(0, both, 10, "fillrandom", "readrandom", "readreverse")
	rep := assemble(old.Settings, old.Conditions, old.Results)
	require.NoError(t, os.WriteFile(page, []byte("before\n"+markBegin+"\n"+rep.page().markdown()+markEnd+"\nafter\n"), 0o644))
	later := completeRun(60, config{Engines: []string{"sievedb", "bbolt", "pebble"}}, 20, "readrandom", "readseq-cacheall")
	run := writeResults(t, dir, "run.json", later)
	status, _, stderr := peerbench(t, "--from="+page+","+run, "--markdown="+page, "--summary="+page)
	require.NotEqual(t, exitOK, status, "the page has no marks for a summary")
	require.Contains(t, stderr, summaryEnd)

	text := textIn(t, page)
	require.Regexp(t, `(?s)^before\n.*\nafter\n$`, text)
	merged := readTables(text)[0]
	require.Equal(t, []string{"workload", "SieveDB", "bbolt", "Pebble", "SieveDB / best peer", "SieveDB / Pebble"}, merged.tables[0].head)
	require.Equal(t, [][]string{
		{"fillrandom", "10", "10", "n/a", "1.00×", "n/a"},
		{"readrandom", "20", "20", "20", "1.00×", "1.00×"},
		{"readreverse", "10", "10", "n/a", "1.00×", "n/a"},
		{"readseq-cacheall", "20", "20", "20", "1.00×", "1.00×"},
	}, merged.tables[0].rows)
	first, again := rep.lines(), assemble(later.Settings, later.Conditions, later.Results).lines()
	addition := later.addition()
	require.Equal(t, slices.Concat(first[:1], []string{addition.String()}, again[1:]), merged.lines)
}

func TestAPageKeepsTablesThatARunCannotReplace(t *testing.T) {
	both := config{Engines: []string{"sievedb", "bbolt"}}
	fresh := func() *jsonFile { return completeRun(0, both, 10, "readrandom") }
	for _, test := range []struct {
		want   string
		change func(f *jsonFile)
	}{
		{"it has no results of bbolt, which the tables have", func(f *jsonFile) {
			*f = *completeRun(0, config{Engines: []string{"sievedb"}}, 10, "readrandom")
		}},
		{"the settings of the tables differ from its own", func(f *jsonFile) { f.Settings.Rounds = 5 }},
		{"it was made on 99 × ", func(f *jsonFile) { f.Conditions.Processors = 99 }},
		{"it has bbolt other, and the tables another version", func(f *jsonFile) {
			setInfo(f, engineInfo{Name: "bbolt", Title: "bbolt", Version: "other"})
		}},
		{"it is not a complete run, or is merged with another", func(f *jsonFile) { f.Complete = false }},
		{"it is not a complete run, or is merged with another", func(f *jsonFile) { f.Conditions.Added = make([]addition, 1) }},
	} {
		base, other := fresh(), fresh()
		p := assemble(base.Settings, base.Conditions, base.Results).page()
		test.change(other)
		require.ErrorContains(t, p.merge(other), test.want)
		require.Equal(t, assemble(base.Settings, base.Conditions, base.Results).page(), p)
		require.NoError(t, p.merge(fresh()))
	}
	require.ErrorContains(t, (&page{}).merge(fresh()), "another machine")
}

// A run's medians are the same from its results, from its tables and from themselves, and can be read like a run.
func TestMediansAreKeptInASmallFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	cfg := config{Engines: []string{"sievedb", "sievedb-buffered", "bbolt"}, Num: 1000, KeyShape: randomKeys, ValueSize: 10}
	cfg.CacheBytes, cfg.OpenFiles = 3<<19, 500
	run := completeRun(0, cfg, 10, "fillrandom", "readrandom")
	run.Conditions.Added = []addition{run.addition()}
	for i, r := range run.Results {
		r.Threads, r.Ops, r.OpsPerSec, r.CPUSeconds, r.PeakBytes = 16, 2_000_000, float64(10+i), 3, 5*mb
		if r.Workload == "fillrandom" {
			amp := 2.5
			r.SettleSeconds, r.WriteAmp, r.Latency = new(float64), &amp, &latency{P50: 1, P9999: 90}
		}
	}
	writeResults(t, dir, "run.json", run)
	want := assemble(run.Settings, run.Conditions, run.Results).page()
	require.NoError(t, os.WriteFile(at("page.md"), []byte(markBegin+"\n"+want.markdown()+markEnd), 0o644))
	read := func(from, to string) *jsonFile {
		status, _, stderr := peerbench(t, "--from="+at(from), "--medians="+at(to))
		require.Equal(t, exitOK, status, stderr)
		return resultsIn(t, at(to))
	}
	one, two, three := read("run.json", "one.json"), read("page.md", "two.json"), read("one.json", "three.json")
	require.Len(t, one.Results, 6)
	require.Equal(t, one.Results, two.Results)
	require.Equal(t, one, three)
	require.Equal(t, run.Conditions.Date, two.Conditions.Date)
	require.Equal(t, run.Conditions.Added, two.Conditions.Added)
	for _, f := range []*jsonFile{one, two} {
		got := assemble(f.Settings, f.Conditions, f.Results).page()
		require.Subset(t, want.lines, got.lines)
		require.Equal(t, want.tables[:3], got.tables[:3])
		require.Equal(t, "SieveDB 13 n/a 0.87× n/a 1.50 5 0 90.0 0 2.50", strings.Join(got.tables[3].rows[0], " "))
	}

	for old, message := range map[string]string{"10 bytes": "does not begin with", "bbolt": "should begin with"} {
		text := strings.ReplaceAll(markBegin+"\n"+want.markdown()+markEnd, old, "other")
		require.NoError(t, os.WriteFile(at("page.md"), []byte(text), 0o644))
		status, _, stderr := peerbench(t, "--from="+at("page.md"), "--medians="+at("four.json"))
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, message)
	}
}

func TestRatiosHaveTheirRangeOverKeptRuns(t *testing.T) {
	type rates map[string]float64 // by engine; 0: not measured
	run := func(workload string, all rates) *report {
		f := completeRun(0, config{Engines: []string{"sievedb", "pebble", "bbolt"}}, 0, workload)
		for _, r := range f.Results {
			r.OpsPerSec = all[r.Engine]
		}
		return assemble(f.Settings, f.Conditions, slices.DeleteFunc(f.Results, func(r *result) bool { return r.OpsPerSec == 0 }))
	}
	first := run("readseq", rates{"sievedb": 30, "pebble": 20, "bbolt": 10})
	w := first.page().tables[3]
	for _, test := range []struct {
		claim, workload, want string
		second                rates
	}{
		{"another engine is the best other one", "readseq", "1.50× (0.75–1.50)", rates{"sievedb": 30, "pebble": 20, "bbolt": 40}},
		{"one that is behind is missing", "readseq", "1.50× (1.50–2.00)", rates{"sievedb": 40, "pebble": 20}},
		{"the best other one is missing", "readseq", "1.50×", rates{"sievedb": 30, "bbolt": 1}},
		{"SieveDB is missing", "readseq", "1.50×", rates{"pebble": 30, "bbolt": 1}},
		{"the workload is missing", "readreverse", "1.50×", rates{"sievedb": 30, "pebble": 20}},
	} {
		require.Equal(t, test.want, keptRuns{first, run(test.workload, test.second)}.ratio(&w, 0), test.claim)
	}
	require.Equal(t, "1.50×", keptRuns(nil).ratio(&w, 0))
	require.Contains(t, keptRuns{first, first}.machines(), "over 2 machines:\n\n- "+first.conditions.machine())

	dir := t.TempDir()
	for i, name := range []string{"a.json", "b.json"} {
		writeResults(t, dir, name, completeRun(0, config{Engines: []string{"sievedb"}, Num: i}, 1, "readseq"))
	}
	_, err := readRuns(dir)
	require.ErrorContains(t, err, "b.json has other settings than")
}
