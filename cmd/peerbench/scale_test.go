package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scaleSample returns a report of two sizes with three openings, of one engine also lazily, a fill and one read.
func scaleSample() *report {
	cfg := &config{Engines: []string{"sievedb", "pebble"}, Scale: []int{1000, 2000}, ValueSize: 84, Rounds: 3}
	number := func(v float64) *float64 { return &v }
	var results []*result
	for _, keys := range cfg.Scale {
		for _, name := range cfg.Engines {
			add := func(workload string, r result) {
				r.Engine, r.Workload, r.Keys, r.Threads = name, workload, keys, 1
				results = append(results, &r)
			}
			slow := float64(keys) / 1000
			add("fillrandom", result{Ops: uint64(keys), OpsPerSec: 1e6, CPUSeconds: slow, DiskBytes: uint64(50 * keys), PeakBytes: 7 * mb,
				settling: settling{SettledOpsPerSec: number(5e5 / slow), SettleSeconds: number(slow), WriteAmp: number(2 * slow)},
				Latency:  &latency{P9999: 2000 * slow, Max: 9000}})
			for _, seconds := range []float64{0.003, 0.001, 0.002} {
				add(opening, result{OpenSeconds: number(seconds * slow)})
				if name == "sievedb" {
					add(openLazily, result{OpenSeconds: number(seconds * slow / 2)})
				}
			}
			add("readrandom", result{Ops: 1000, OpsPerSec: 5e5 / slow, CPUSeconds: 0.003, PeakBytes: 5 * mb})
			add(recovering, result{OpenSeconds: number(0.1), Ops: 900, Found: 899})
		}
	}
	return newReport(cfg, time.Unix(0, 0), allDrivers, results)
}

func TestScaleTablesHaveARowForEachSizeAndEngine(t *testing.T) {
	tables := scaleSample().tables()
	var titles []string
	for _, table := range tables {
		titles = append(titles, table.title)
		for _, row := range table.rows {
			require.Len(t, row, len(table.head), table.title)
		}
	}
	require.Equal(t, []string{"Fills in random order, settled", "Opening, and recovery of a full log", "µs per operation", "CPU µs per operation", "Peak MB while reading"}, titles)

	fills, opens, reads := tables[0], tables[1], tables[2]
	require.Equal(t, []string{"1,000", "SieveDB", "1,000,000", "500,000", "1,000", "1.00", "2.00", "9.00", "2.00", "0", "0.5000", "7"}, fills.rows[0])
	require.Equal(t, []string{"2,000", "Pebble †", "1,000,000", "250,000", "1,000", "2.00", "4.00", "9.00", "4.00", "0", "0.5000", "7"}, fills.rows[3])
	require.Equal(t, lossNote, fills.note)
	require.Equal(t, []string{"keys", "engine", "open ms", "open ms, lazy tables", "recovery ms", "writes in log", "recovered"}, opens.head)
	require.Equal(t, []string{"1,000", "SieveDB", "2.00", "1.00", "100", "900", "899"}, opens.rows[0], "the median of three")
	require.Equal(t, []string{"1,000", "Pebble †", "2.00", "n/a", "100", "900", "899"}, opens.rows[1])
	require.Equal(t, []string{"keys", "engine", "readrandom"}, reads.head, "columns without figures are omitted")
	require.Equal(t, [][]string{{"1,000", "SieveDB", "2.00"}, {"1,000", "Pebble", "2.00"}, {"2,000", "SieveDB", "4.00"}, {"2,000", "Pebble", "4.00"}}, reads.rows)
	require.Equal(t, "3.00", tables[3].rows[0][2])
	require.Empty(t, reads.note)
}

func TestScaleWritesBetweenItsOwnMarks(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	both := markBegin + "run\n" + markEnd + "\n" + scaleBegin + "old\n" + scaleEnd + "\nafter\n"
	require.NoError(t, os.WriteFile(page, []byte(both), 0o644))
	rep := scaleSample()
	require.NoError(t, rep.writeMarkdown(page))
	text := textIn(t, page)
	require.Contains(t, text, markBegin+"run\n"+markEnd+"\n"+scaleBegin+"\n")
	require.Regexp(t, `(?s)1,000, 2,000 keys.*\| keys \| engine \|.*`+scaleEnd+"\nafter\n$", text)
	require.NotContains(t, text, "old")
}

func TestTheScaleChartShowsOneSizeOrSeveral(t *testing.T) {
	for _, sizes := range [][]int{{1000}, {1000, 2000}} {
		rep := scaleSample()
		rep.cfg.Scale = sizes
		text := string(rep.page().drawings()[scaleSVG])
		for _, line := range []string{"SieveDB, readrandom", "Pebble †, fillrandom, settled", "1,000", lossNote[:20]} {
			require.Contains(t, text, line)
		}
	}
}

func TestALogIsNearlyFullAndHasAtMostAllKeys(t *testing.T) {
	cfg := &config{Num: 1_000_000, ValueSize: 100}
	require.InDelta(t, 12<<20, logKeys(cfg)*116, 116)
	require.Equal(t, 5000, logKeys(cfg.atSize(5000)))
}

func TestEveryEngineIsMeasuredAtEverySize(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	status, table, progress := peerbench(t, "--scale=500,1500", "--rounds=1", "--engines=sievedb,pebble,goleveldb,badger,bbolt",
		"--json="+at("run.json"), "--markdown="+at("run.md"), "--svg="+at("run"))
	require.Equal(t, exitOK, status, progress)
	file := resultsIn(t, at("run.json"))
	measured := map[string]map[int]int{} // engine, size
	for _, r := range file.Results {
		if measured[r.Engine] == nil {
			measured[r.Engine] = map[int]int{}
		}
		measured[r.Engine][r.Keys]++
		switch r.Workload {
		case opening, openLazily:
			require.Positive(t, *r.OpenSeconds)
		case recovering:
			require.EqualValues(t, r.Keys, r.Ops)
			if r.Engine != "pebble" {
				require.Equal(t, r.Ops, r.Found)
			}
		case "fillrandom":
			require.EqualValues(t, r.Keys, r.Ops)
		}
	}
	for _, name := range file.Settings.Engines {
		want := len(scaleNames())
		if name == "sievedb" {
			want++ // it can open lazily
		}
		require.Equal(t, map[int]int{500: want, 1500: want}, measured[name], name)
	}
	for _, word := range []string{"seekrandom", "1,500", "recovery ms", lossNote} {
		require.Contains(t, table, word)
	}
	requireRedrawn(t, dir, "scale")
}

func TestPartsOfScaleAreOptional(t *testing.T) {
	status, table, progress := peerbench(t, "--scale=500", "--scale-workloads=fill", "--engines=sievedb")
	require.Equal(t, exitOK, status, progress)
	require.Contains(t, table, "write amp.")
	require.NotContains(t, table, "recovery")
	require.NotContains(t, table, "µs per operation")
}

// The engine drops the second put of the abandoned process, but none of the fill.
func TestAWriteLostWithTheProcessIsNoticed(t *testing.T) {
	status, _, progress := peerbench(t, "--scale=500", "--scale-workloads=recovery", "--engines=forgets", "--rounds=1")
	require.Equal(t, exitFailed, status)
	require.Contains(t, progress, "only 499 of 500 acknowledged writes survived")
}
