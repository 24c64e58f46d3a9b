package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALargeRunHasATableForEachSizeAndItsRates(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	page := "before\n" + largeBegin + "old\n" + largeEnd + "\nafter\n"
	require.NoError(t, os.WriteFile(at("run.md"), []byte(page), 0o644))
	status, _, progress := peerbench(t, "--scale=3000", "--rounds=1", "--engines=sievedb,pebble,bbolt",
		"--scale-workloads=overwrite,open,readrandom,rates", "--rate-shares=50", "--rates=2000", "--rate-time=1", "--writers=1,3",
		"--json="+at("run.json"), "--markdown="+at("run.md"))
	require.Equal(t, exitOK, status, progress)
	measured := map[string]int{}
	for _, r := range resultsIn(t, at("run.json")).Results {
		measured[r.Workload]++
		switch r.Workload {
		case overwriting:
			require.EqualValues(t, 600, r.Ops)
			require.Positive(t, *r.Further.LastTenthPerSec)
			require.Positive(t, *r.Further.HeapBytes)
		case rateName(2000):
			require.InDelta(t, 2000, *r.Further.OfferedPerSec, 0)
			require.LessOrEqual(t, r.Ops, uint64(2*r.Seconds*2000), "no more than were due")
			require.NotNil(t, r.Further.Waits)
		case fullSpeed:
			require.Nil(t, r.Further.Waits)
			require.Positive(t, *r.SettledOpsPerSec)
		}
	}
	for _, name := range []string{"fillrandom", overwriting, "readrandom"} {
		require.Equal(t, 3, measured[name], name)
	}
	for _, name := range []string{fullSpeed, shareName(50), rateName(2000)} {
		require.Equal(t, 6, measured[name], name)
	}
	text := textIn(t, at("run.md"))
	require.Regexp(t, `(?s)^before\n`+largeBegin+`.*\*\*3,000 keys\*\*.*\| figure \| SieveDB \| Pebble † \| bbolt \|.*`+
		`\| overwrite: write amp\. \|.*\| readrandom: heap MB \|.*rates, 3,000 keys, 1 writer\*\*.*3 writers.*\| 2,000/s \| 2,000 \|.*`+
		largeEnd+"\nafter\n$", text)
	status, _, progress = peerbench(t, "--from="+at("run.json"), "--markdown="+at("run.md"))
	require.Equal(t, exitOK, status, progress)
	require.Equal(t, text, textIn(t, at("run.md")), "the same from stored results")
}

func TestAnEngineThatExceedsTheLimitLeavesTheOthersTheirTurn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.json")
	status, table, progress := peerbench(t, "--scale=200000", "--rounds=1", "--engines=sievedb,pebble", "--limit=1ms",
		"--scale-workloads=overwrite,readrandom", "--json="+name)
	require.Equal(t, exitOK, status, progress)
	file := resultsIn(t, name)
	require.True(t, file.Complete)
	require.Len(t, file.Results, 2, "no engine goes on")
	require.NotContains(t, table, "fill: write amp.")

	rep := scaleSample()
	rep.cfg.ScaleWorkloads = []string{filling, overwriting}
	rep.results = append(rep.results, &result{Engine: "pebble", Workload: overwriting, Keys: 1000, Error: "not finished after 3h0m0s"})
	tables := rep.tables()
	require.Contains(t, tables[0].note, "Pebble: overwrite was not finished after 3h0m0s.")
	require.NotContains(t, tables[1].note, "not finished")
}

func TestAPaceMayBeAFractionOfAnOperation(t *testing.T) {
	const tick = time.Millisecond
	p := pace{each: 2.5, tick: tick}
	for op, want := range []time.Duration{1, 1, 2, 2, 2, 3, 3} {
		require.Equal(t, want*tick, p.due(uint64(op)), op)
	}
	require.Equal(t, 4*tick, pace{each: 0.5, tick: tick}.due(1))
}

func TestWithoutAPaceOperationsAreAlwaysDue(t *testing.T) {
	clock, stop := time.Duration(0), make(chan struct{})
	n := 0
	r, err := pace{tick: time.Millisecond, elapsed: func() time.Duration { return clock }}.keep(stop, func() error {
		if n++; n == 100 {
			close(stop)
		}
		clock += time.Microsecond
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 100, r.ops)
	require.Zero(t, r.waits.TotalCount())
	require.EqualValues(t, 100, r.calls.TotalCount())
}

func TestTheLastTenthHasItsOwnRate(t *testing.T) {
	th := &thread{}
	slow := simple(nil, func(_ *thread, i int) error {
		if i >= 90 {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	_, _, err := th.run(slow, 100, true)
	require.NoError(t, err)
	require.Positive(t, th.lastTenth)
	require.LessOrEqual(t, th.lastTenth, 1000.0)
}

// Engines with separated values are measured if they are named, with the parts for large values.
func TestEnginesWithSeparatedValues(t *testing.T) {
	engines := askedEngines(allDrivers)
	require.Contains(t, engines, "pebble-separated")
	require.Contains(t, engines, "badger-separated")
	require.NotContains(t, usualEngines(allDrivers), "pebble-separated")
	name := filepath.Join(t.TempDir(), "run.json")
	status, table, progress := peerbench(t, "--scale=400", "--value-size=5000", "--rounds=1", "--engines=sievedb,"+strings.Join(engines, ","),
		"--overwrites=250", "--scale-workloads=overwrite,readrandom,readkeys,readseq,deleterandom", "--json="+name)
	require.Equal(t, exitOK, status, progress)
	file := resultsIn(t, name)
	ops := map[string]uint64{"fillrandom": 400, overwriting: 1000, "readrandom": 400, scanningKeys: 400, "readseq": 400, deleting: 200}
	require.Len(t, file.Results, (len(engines)+1)*len(ops))
	for _, r := range file.Results {
		require.Equal(t, ops[r.Workload], r.Ops, "%s of %s", r.Workload, r.Engine)
	}
	require.Contains(t, table, "deleterandom: write amp.")
	require.Contains(t, table, "readkeys: ops/s")
}
