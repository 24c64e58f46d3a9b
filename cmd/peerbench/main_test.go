package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// The test program is also the process of a measurement, and has additional engines that lie.
func TestMain(m *testing.M) {
	allDrivers = append(allDrivers, liars()...)
	if os.Getenv(childMark) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// A liar is SieveDB with one fault.
type liar struct {
	engine.Engine
	puts  int
	drops int // the number of the put that is dropped
	finds bool
	wrong bool
	// forgets: a new database does not drop a put.
	forgets bool
}

func (l *liar) Put(key, value []byte) error {
	if l.puts++; l.puts == l.drops {
		return nil
	}
	return l.Engine.Put(key, value)
}

func (l *liar) Apply(n int, entry func(i int) (key, value []byte)) error {
	if l.puts++; l.puts == l.drops {
		n--
	}
	return l.Engine.Apply(n, entry)
}

func (l *liar) Get(dst, key []byte) ([]byte, bool, error) {
	value, found, err := l.Engine.Get(dst, key)
	if l.wrong && found {
		value[len(value)-1] ^= 1
	}
	if l.finds && !found {
		return make([]byte, testValueSize), true, err
	}
	return value, found, err
}

const testValueSize = 100

func liars() []engine.Driver {
	honest := engine.Go()[0].Open
	driver := func(name string, l liar) engine.Driver {
		return engine.Driver{Name: name, Title: name, Open: func(dir string, o engine.Options) (engine.Engine, error) {
			_, missing := os.Stat(filepath.Join(dir, "CURRENT"))
			isNew := missing != nil
			e, err := honest(dir, o)
			lying := l
			lying.Engine = e
			if l.forgets && isNew {
				lying.drops = 0
			}
			return &lying, err
		}}
	}
	return []engine.Driver{
		driver("drops", liar{drops: 2}),
		driver("finds", liar{finds: true}),
		driver("wrong", liar{wrong: true}),
		driver("forgets", liar{drops: 2, forgets: true}),
	}
}

// peerbench runs the command like a user.
func peerbench(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), append([]string{"--dir=" + t.TempDir()}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// resultsIn reads a file of --json.
func resultsIn(t *testing.T, name string) *jsonFile {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	file, err := readRun(name, text)
	require.NoError(t, err)
	return file
}

// textIn reads a file.
func textIn(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// writeResults writes a file of --json and returns its name.
func writeResults(t *testing.T, dir, name string, f *jsonFile) string {
	t.Helper()
	text, err := json.Marshal(f)
	require.NoError(t, err)
	name = filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(name, text, 0o644))
	return name
}

func TestEveryEngineRunsEveryWorkload(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var engines []string
	for _, name := range engineNames(allDrivers) {
		if _, lies := findDriver(liars(), name); !lies {
			engines = append(engines, name)
		}
	}
	status, table, progress := peerbench(t, "--num=2000", "--rounds=1", "--threads=1,2", "--writers=1,4", "--open-files=500", "--engines="+strings.Join(engines, ","),
		"--json="+at("run.json"), "--markdown="+at("run.md"), "--svg="+at("run"), "--summary="+at("summary.md"))
	require.Equal(t, exitOK, status, progress)

	file := resultsIn(t, at("run.json"))
	require.True(t, file.Complete)
	measured := map[string]map[string]bool{}
	for _, r := range file.Results {
		if measured[r.Engine] == nil {
			measured[r.Engine] = map[string]bool{}
		}
		measured[r.Engine][r.Workload] = true
		w, ok := findWorkload(r.Workload)
		require.True(t, ok)
		require.GreaterOrEqual(t, r.Ops, uint64(w.ops(file.Settings, r.Threads)), r.Workload)
		require.Positive(t, r.OpsPerSec, r.Workload)
		require.NotNil(t, r.Latency, r.Workload)
		require.Positive(t, r.DiskBytes, r.Workload)
		if r.EndBytes > 0 { // the system tells it
			require.Positive(t, *r.EndAnonymous, r.Workload)
			require.Positive(t, *r.EndFile, r.Workload)
			require.LessOrEqual(t, *r.EndAnonymous+*r.EndFile, r.EndBytes, r.Workload)
		}
		switch r.Workload {
		case "readrandom", "readhot", "seekrandom", "readseq", "readreverse", "readseq-cacheall", "readreverse-cacheall", "seekrandom-cacheall", "readwhilewriting", "ycsb-c", "coldrandom":
			require.Equal(t, r.Ops, r.Found, r.Workload)
		case "readmissing", "coldmissing":
			require.Zero(t, r.Found, r.Workload)
		case "fillrandom":
			require.NotNil(t, r.SettledOpsPerSec)
			require.EqualValues(t, 2000, r.Ops)
		}
		if r.Workload == "readwhilewriting" {
			require.NotNil(t, r.BackgroundWrites) // may be 0: the run may end before the first write is due
			require.NotNil(t, r.BackgroundWaits)
		}
	}
	require.Len(t, measured, len(engines))
	for _, name := range engines {
		require.Len(t, measured[name], len(workloads), name)
	}

	page := textIn(t, at("run.md"))
	for _, name := range []string{"fillseq", "readrandom, 2 readers", "fillsync, 4 writers", "SieveDB", "bbolt", "Pebble †", lossNote[:50]} {
		require.Contains(t, table, name)
		require.Contains(t, page, name)
	}
	requireRedrawn(t, dir, "throughput", "cost")
	require.FileExists(t, at("summary.md"))
}

// These rows are about memory: an engine with a block cache must have everything in it before they begin.
func TestRowsAtEqualMemoryReadNoFiles(t *testing.T) {
	const keys, most = 50_000, 50 // read calls, of the program itself too
	file := filepath.Join(t.TempDir(), "run.json")
	status, _, progress := peerbench(t, fmt.Sprint("--num=", keys), "--rounds=1", "--engines=sievedb,pebble,goleveldb", "--cache=1MiB",
		"--workloads=readrandom-cacheall,seekrandom-cacheall,readseq-cacheall,readreverse-cacheall,seekrandom", "--json="+file)
	require.Equal(t, exitOK, status, progress)
	run := resultsIn(t, file)
	require.Len(t, run.Results, 15)
	for _, r := range run.Results {
		switch {
		case r.ReadCallsPerOp == nil: // the system does not count them
		case r.Workload == "seekrandom":
			require.Greater(t, *r.ReadCallsPerOp*float64(r.Ops), 2.0*most, "%s: the data fits the small cache", r.Engine)
		default:
			require.Less(t, *r.ReadCallsPerOp*float64(r.Ops), float64(most), "%s, %s", r.Engine, r.Workload)
		}
		if r.Workload == "readseq-cacheall" || r.Workload == "readreverse-cacheall" {
			require.EqualValues(t, 10*keys, r.Ops, "%s, %s", r.Engine, r.Workload)
		}
	}
}

// The pages of a database that was just copied are dirty, so writing to them again would not be counted.
func TestOverwritingInPlaceIsCounted(t *testing.T) {
	dir := t.TempDir()
	file, profiles := filepath.Join(dir, "run.json"), filepath.Join(dir, "profiles")
	status, _, progress := peerbench(t, "--num=2000", "--rounds=1", "--writers=1", "--engines=bbolt", "--workloads=fillrandom,overwrite", "--json="+file, "--cpuprofiles="+profiles)
	require.Equal(t, exitOK, status, progress)
	run := resultsIn(t, file)
	fill, over := run.Results[0].WriteAmp, run.Results[1].WriteAmp
	if fill != nil && *fill > 0.1 { // the system counts writes in this folder
		require.Greater(t, *over, 0.1)
	}
	require.FileExists(t, filepath.Join(profiles, "bbolt-overwrite-1-threads-2000-keys.pprof"))
}

func TestAnEngineThatLiesIsNoticed(t *testing.T) {
	for _, test := range []struct{ engine, workload, message string }{
		{"drops", "fillrandom", "has 1999 keys; want 2000"},
		{"drops", "fillbatch", "has 1999 keys; want 2000"},
		{"drops", "readseq", "found "},
		{"finds", "readmissing", "found "},
		{"wrong", "readrandom", "a different value"},
	} {
		t.Run(test.engine+" in "+test.workload, func(t *testing.T) {
			status, _, progress := peerbench(t, "--num=2000", "--reads=8000", "--rounds=1", "--engines="+test.engine, "--workloads="+test.workload)
			require.Equal(t, exitFailed, status)
			require.Contains(t, progress, test.message)
		})
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--num=1"}, {"--engines=oracle"}, {"--engines="}, {"--workloads=fillslow"}, {"--threads=0"}, {"--threads=x"}, {"--reads=-2"}, {"--engines=bbolt,bbolt"}, {"--scale=10"}, {"--scale=1000,x"}, {"--scale=1000", "--scale-workloads=read"}, {"--writers=0"}, {"--writers="},
		{"--key-shape=round"}, {"--cache=1"}, {"--cache=64XB"}, {"--open-files=-1"}, {"--rounds=0"}, {"stray"},
	} {
		status, _, message := peerbench(t, args...)
		require.Equal(t, exitUsage, status, args)
		require.NotEmpty(t, message, args)
	}
	_, _, message := peerbench(t, "--threads=1,x")
	require.Contains(t, message, `--threads: "x" is not a number`)
	status, _, progress := peerbench(t, "--num=100", "--engines=bbolt", "--workloads=fillseq", "--svg="+filepath.Join(t.TempDir(), "none", "run"))
	require.Equal(t, exitFailed, status)
	require.NotContains(t, progress, "round 1", "a file that cannot be written fails before the run")
	status, help, _ := peerbench(t, "--help")
	require.Equal(t, exitOK, status)
	require.Contains(t, help, "readmissing")
}
