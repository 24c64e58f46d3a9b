package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sample() *report {
	cfg := &config{Engines: []string{"sievedb", "pebble", "bbolt"}, Num: 1000, Rounds: 3}
	var results []*result
	for round, rates := range [][3]float64{{10, 5, 8}, {30, 5, 8}, {20, 4, 8}} {
		for i, rate := range rates {
			results = append(results, &result{Engine: cfg.Engines[i], Workload: "readrandom", Threads: 1, Round: round, Ops: 1, OpsPerSec: rate})
		}
	}
	return newReport(cfg, time.Unix(0, 0), allDrivers, results)
}

func TestTheOverviewHasMediansAndRatios(t *testing.T) {
	overview := sample().overview()
	require.Equal(t, []string{"workload", "SieveDB", "Pebble", "bbolt", "SieveDB / best peer", "SieveDB / Pebble"}, overview.head)
	require.Equal(t, [][]string{{"readrandom", "20", "5", "8", "2.50×", "4.00×"}}, overview.rows)
}

func TestAWorkloadsTableHasLeastAndGreatest(t *testing.T) {
	rep := sample()
	require.Equal(t, []string{"SieveDB", "20", "10–30", "1.00×", "4.00×"}, rep.details(rep.rows[0]).rows[0][:5])
	require.Equal(t, []string{"Pebble", "5", "4–5", "0.25×", "1.00×"}, rep.details(rep.rows[0]).rows[1][:5])
}

func TestThePageKeepsWhatStandsAroundItsMarks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+markBegin+"old\n"+markEnd+"\nafter\n"), 0o644))
	for range 2 {
		require.NoError(t, sample().writeMarkdown(name))
	}
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^before\n<!-- peerbench: begin -->\n.*\| readrandom \| 20 \|.*<!-- peerbench: end -->\nafter\n$`, string(page))
	require.NotContains(t, string(page), "old")

	require.NoError(t, os.WriteFile(name, []byte("mine\n"), 0o644))
	require.ErrorContains(t, sample().writeMarkdown(name), "no marks")
}
