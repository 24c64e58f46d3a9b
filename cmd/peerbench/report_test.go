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

func sample() *report {
	cfg := &config{Engines: []string{"sievedb", "pebble", "bbolt"}, Num: 1000, Rounds: 3}
	var results []*result
	for round, rates := range [][3]float64{{10, 5, 8}, {30, 5, 8}, {20, 4, 8}} {
		for i, rate := range rates {
			cost := [3]struct {
				cpu  float64
				peak uint64
			}{{3e-6, 150 * mb}, {5e-6, 100 * mb}, {2e-6, 200 * mb}}[i]
			results = append(results, &result{Engine: cfg.Engines[i], Workload: "readrandom", Threads: 1, Round: round, Ops: 1, OpsPerSec: rate,
				CPUSeconds: cost.cpu, PeakBytes: cost.peak})
		}
	}
	return newReport(cfg, time.Unix(0, 0), allDrivers, results)
}

func TestTheOverviewShowsMediansAndRatios(t *testing.T) {
	overview := sample().tables()[0]
	require.Equal(t, []string{"workload", "SieveDB", "Pebble", "bbolt", "SieveDB / best peer", "SieveDB / Pebble"}, overview.head)
	require.Equal(t, [][]string{{"readrandom", "20", "5", "8", "2.50×", "4.00×"}}, overview.rows)
}

func TestCPUAndMemoryAreBesideTheRates(t *testing.T) {
	rep := sample()
	tables := rep.tables()
	for i, want := range []struct {
		title string
		cells []string
	}{
		{"ops/s, medians", []string{"readrandom", "20", "5", "8", "2.50×", "4.00×"}},
		{"CPU µs/op, medians", []string{"readrandom", "3.00", "5.00", "2.00"}},
		{"peak MB, medians", []string{"readrandom", "150", "100", "200"}},
	} {
		require.Equal(t, want.title, tables[i].title)
		require.Equal(t, [][]string{want.cells}, tables[i].rows)
	}
	names := func() []string { return rep.details(rep.rows[0]).head[5:] }
	require.Equal(t, []string{"CPU µs/op", "peak MB", "end MB", "disk MB"}, names(), "an older file has no parts of the memory")
	private, mapped := uint64(90*mb), uint64(60*mb)
	rep.results[0].EndAnonymous, rep.results[0].EndFile = &private, &mapped
	require.Equal(t, []string{"CPU µs/op", "peak MB", "end MB", "anon MB", "file MB", "disk MB"}, names())
	require.Equal(t, []string{"3.00", "150", "0", "90", "60", "0"}, rep.details(rep.rows[0]).rows[0][5:])
	require.Equal(t, []string{"5.00", "100", "0", "n/a", "n/a", "0"}, rep.details(rep.rows[0]).rows[1][5:])
}

func TestAWorkloadsTableShowsMinimumAndMaximum(t *testing.T) {
	rep := sample()
	require.Equal(t, []string{"SieveDB", "20", "10–30", "1.00×", "4.00×"}, rep.details(rep.rows[0]).rows[0][:5])
	require.Equal(t, []string{"Pebble", "5", "4–5", "0.25×", "1.00×"}, rep.details(rep.rows[0]).rows[1][:5])
}

// twoEngines returns a report with equal results of two engines.
func twoEngines(workload string, r result) *report {
	cfg := &config{Engines: []string{"sievedb", "pebble"}, Num: 1000, Rounds: 1}
	var results []*result
	for _, name := range cfg.Engines {
		one := r
		one.Engine, one.Workload, one.Threads = name, workload, 16
		results = append(results, &one)
	}
	return newReport(cfg, time.Unix(0, 0), allDrivers, results)
}

func TestEnginesThatLoseUnsyncedWritesAreMarked(t *testing.T) {
	for _, test := range []struct {
		workload string
		marked   bool
	}{{"fillrandom", true}, {"readwhilewriting", true}, {"ycsb-a", true}, {"fillsync", false}, {"readrandom", false}} {
		rep := twoEngines(test.workload, result{Ops: 1, OpsPerSec: 1})
		pebble, note := "Pebble", ""
		if test.marked {
			pebble, note = "Pebble †", lossNote
		}
		for _, table := range []table{rep.tables()[0], rep.details(rep.rows[0])} {
			require.Equal(t, note, table.note, test.workload)
		}
		require.Equal(t, pebble, rep.tables()[0].head[2])
		require.Equal(t, pebble, rep.details(rep.rows[0]).rows[1][0])
		require.Equal(t, "SieveDB", rep.tables()[0].head[1])
		require.Equal(t, test.marked, strings.Contains(rep.page().markdown(), wrapped(lossNote)))
		var text strings.Builder
		rep.writeText(&text)
		require.Equal(t, test.marked, strings.Contains(text.String(), lossNote))
		require.Equal(t, test.marked, strings.Contains(string(rep.page().throughput().File()), "Pebble †"))
	}
}

func TestColumnsDependOnTheWorkload(t *testing.T) {
	settled := 1.5
	r := result{Ops: 2_000_000, OpsPerSec: 1, CPUSeconds: 5, Latency: &latency{P9999: 99_000}}
	column := func(workload, name string) string {
		rep := twoEngines(workload, r)
		table := rep.details(rep.rows[0])
		if i := slices.Index(table.head, name); i >= 0 {
			return table.rows[0][i]
		}
		return "none"
	}
	require.Equal(t, "2.50", column("readrandom", "CPU µs/op"))
	require.Equal(t, "none", column("readrandom", "CPU s/M ops, settled"))
	require.Equal(t, "none", column("readrandom", "p99.99"))
	r.SettleSeconds = &settled
	require.Equal(t, "none", column("fillrandom", "CPU µs/op"))
	require.Equal(t, "2.50", column("fillrandom", "CPU s/M ops, settled"))
	require.Equal(t, "99,000", column("fillrandom", "p99.99"))
	require.Equal(t, "fillrandom, 16 writers", twoEngines("fillrandom", r).rows[0].title())
	require.Equal(t, "readhot, 16 readers", twoEngines("readhot", r).rows[0].title())
}

// A thousand latencies of 1 to 1000 µs, and nine thousand of 1 µs before them.
func TestPercentilesAreUpperBounds(t *testing.T) {
	h := newHistogram()
	require.NoError(t, h.RecordValues(1000, 9000))
	for i := range int64(1000) {
		require.NoError(t, h.RecordValue((i+1)*1000))
	}
	l := summarize(h)
	for _, test := range []struct{ want, got float64 }{{1, l.P50}, {900, l.P99}, {990, l.P999}, {999, l.P9999}, {1000, l.Max}} {
		require.InEpsilon(t, test.want, test.got, 0.002)
	}
}

func TestThePageKeepsItsTextAroundTheMarks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+markBegin+"old\n"+markEnd+"\nafter\n"), 0o644))
	for range 2 {
		require.NoError(t, sample().writeMarkdown(name))
	}
	page := textIn(t, name)
	require.Regexp(t, `(?s)^before\n<!-- peerbench: begin -->\n.*\| readrandom \| 20 \|.*<!-- peerbench: end -->\nafter\n$`, page)
	require.NotContains(t, page, "old")

	require.NoError(t, os.WriteFile(name, []byte("mine\n"), 0o644))
	require.ErrorContains(t, sample().writeMarkdown(name), "to write between")
}
