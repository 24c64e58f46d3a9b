package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runOK runs the command and returns what it printed.
func runOK(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, &stdout, &stderr)
	require.Zero(t, status, "%s%s", &stdout, &stderr)
	// A slow machine may see the progress.
	require.Empty(t, regexp.MustCompile(`(?m)^.*: \d+ % done.*\n`).ReplaceAllString(stderr.String(), ""))
	return stdout.String()
}

// readJSON reads the file of --json. It rejects undocumented fields.
func readJSON(t *testing.T, name string) *jsonFile {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var generic map[string]any
	require.NoError(t, json.NewDecoder(f).Decode(&generic))
	delete(generic["settings"].(map[string]any), "duration") // a number of seconds; config has no UnmarshalJSON
	if stats, ok := generic["stats"].(map[string]any); ok {
		delete(stats, "BackgroundError")
	}
	again, err := json.Marshal(generic)
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(again))
	d.DisallowUnknownFields()
	out := &jsonFile{}
	require.NoError(t, d.Decode(out))
	return out
}

func TestEveryWorkloadRuns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	var all []string
	for _, w := range workloads {
		all = append(all, w.name)
	}
	out := runOK(t, "--num=1000", "--threads=2", "--histogram", "--seek_nexts=3", "--json="+name, "--benchmarks="+strings.Join(all, ","))
	j := readJSON(t, name)
	require.Equal(t, all, j.Settings.Benchmarks)
	require.NotNil(t, j.Stats)
	require.NotNil(t, j.DiskReadsSaved)
	require.Contains(t, out, "DISK READS SAVED")
	require.Contains(t, out, "filter checks")
	byName := make(map[string]*result)
	for _, r := range j.Results {
		byName[r.Name] = r
		require.Contains(t, out, "\n"+r.Name)
	}
	require.Len(t, byName, len(workloads)-3+3, "stats and filterreads have no line, scanempty has three")
	ops := map[string]uint64{"fillsync": 2, "fillbulk": 1000, "compact": 1, "settle": 1}
	for _, r := range j.Results {
		want, ok := ops[r.Name]
		if !ok {
			want = 2000
		}
		if r.Name == "readseq" || r.Name == "readreverse" {
			require.LessOrEqual(t, r.Ops, want, r.Name) // some keys were deleted
		} else {
			require.Equal(t, want, r.Ops, r.Name)
		}
		require.NotNil(t, r.Latency, r.Name)
		require.LessOrEqual(t, r.Latency.P50, r.Latency.P999, r.Name)
	}
	require.Zero(t, *byName["readmissing"].Found)
	for _, kind := range emptyKinds {
		require.Zero(t, *byName["scanempty "+kind.name].Found)
	}
	require.Regexp(t, `^per scan: [01]\.\d+ data blocks read, 0\.00 tables skipped`, byName["scanempty none"].Note)
	require.Regexp(t, `^per scan: 0\.0\d+ data blocks read, 1\.00 tables skipped`, byName["scanempty prefix"].Note)
	require.Regexp(t, `^per scan: 0\.0\d+ data blocks read, 1\.00 tables skipped`, byName["scanempty grafite"].Note)
	require.Positive(t, *byName["readrandom"].Found)
	require.Nil(t, byName["fillseq"].Found)
}

func TestReadsFindWhatWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	runOK(t, "--num=1000", "--json="+name, "--benchmarks=fillbulk,readrandom,fillbatch,readrandom,readhot,readmissing,seekrandom,readwhilewriting,readseq,readreverse,settle,readrandom")
	for _, r := range readJSON(t, name).Results {
		switch r.Name {
		case "readmissing":
			require.Zero(t, *r.Found)
		case "readrandom", "readhot", "seekrandom", "readwhilewriting":
			require.EqualValues(t, 1000, *r.Found, r.Name)
		case "readseq", "readreverse":
			require.EqualValues(t, 1000, r.Ops, r.Name)
		}
	}
}

func TestFilterReadsDrawsKeysFromTheDatabase(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	runOK(t, "--num=5000", "--reads=2000", "--json="+name, "--benchmarks=fillrandom,deleterandom,filterreads")
	r := readJSON(t, name).DiskReadsSaved
	require.LessOrEqual(t, r.Stored.On.Gets, uint64(2000))
	require.Equal(t, r.Stored.On.Gets, r.Stored.On.Found)
	require.Len(t, r.Checks, 3, "promises are made for the default run only")
}

func TestExistingDatabaseIsUsedAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	runOK(t, "--num=500", "--db="+dir, "--benchmarks=fillseq")
	out := runOK(t, "--num=500", "--db="+dir, "--use_existing_db", "--benchmarks=fillseq,readrandom")
	require.Contains(t, out, "fillseq          : skipped because of --use_existing_db")
	require.Contains(t, out, "500 of 500 found")

	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"--db=" + dir, "--benchmarks=fillseq"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "is not empty; name a new folder, or use --use_existing_db")
	out = runOK(t, "--num=500", "--db="+dir, "--use_existing_db")
	require.Contains(t, out, "DISK READS SAVED")
}

func TestMissingDatabaseIsNotCreated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"--db=" + dir, "--use_existing_db", "--benchmarks=readrandom"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "--use_existing_db: ")
	require.NoDirExists(t, dir)
}

func TestKeyFilesAreLoadedAndLookedUp(t *testing.T) {
	dir := t.TempDir()
	keys, absent := filepath.Join(dir, "keys"), filepath.Join(dir, "absent")
	var stored, others []byte
	for i := range 3000 {
		stored = fmt.Appendf(stored, "user/%d\tvalue %d\n", i*7, i)
		others = fmt.Appendf(others, "user/%d\n", i*7+1)
	}
	require.NoError(t, os.WriteFile(keys, stored, 0o644))
	require.NoError(t, os.WriteFile(absent, others, 0o644))
	name := filepath.Join(dir, "out.json")
	out := runOK(t, "--keys="+keys, "--absent="+absent, "--json="+name)
	require.Contains(t, out, "PASS  every stored key is found: missed: 0 without filters, 0 with them")
	r := readJSON(t, name).DiskReadsSaved
	require.EqualValues(t, 3000, r.Stored.On.Gets)
	require.EqualValues(t, 3000, r.Absent.On.Gets)
	require.Len(t, r.Checks, 3)

	// A key that is listed as absent but stored fails the run, by the report.
	require.NoError(t, os.WriteFile(absent, []byte("user/7\n"), 0o644))
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"--keys=" + keys, "--absent=" + absent}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "FAIL  no absent key is found: found: 1 without filters, 1 with them")
	require.Contains(t, stderr.String(), "1 check failed")
}

func TestTemporaryDatabasesAreRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp) // Windows
	runOK(t, "--num=100", "--benchmarks=fillseq")
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// interrupter cancels a run when it prints word.
type interrupter struct {
	bytes.Buffer
	word   string
	cancel func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), i.word) {
		i.cancel()
	}
	return i.Buffer.Write(p)
}

func TestInterruptEndsCleanly(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	name := filepath.Join(t.TempDir(), "out.json")
	ctx, cancel := context.WithCancel(t.Context())
	stdout := &interrupter{word: "fillseq ", cancel: cancel}
	var stderr bytes.Buffer
	// Without the interrupt readrandom would take an hour.
	status := run(ctx, []string{"--num=1000", "--benchmarks=fillseq,readrandom,readseq", "--reads=2000000000", "--json=" + name}, stdout, &stderr)
	require.Equal(t, exitInterrupted, status)
	require.Equal(t, "dbbench: interrupted\n", stderr.String())
	require.NotContains(t, stdout.String(), "readseq")
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NotEmpty(t, readJSON(t, name).Error)
}

func TestDurationEndsAWorkload(t *testing.T) {
	out := runOK(t, "--num=1000", "--duration=0.05", "--benchmarks=fillseq,readseq,readrandom")
	require.Contains(t, out, "readrandom")
}

func TestProfilesAreWritten(t *testing.T) {
	cpu, mem := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "mem")
	runOK(t, "--num=100", "--benchmarks=fillseq", "--cpuprofile="+cpu, "--memprofile="+mem)
	for _, name := range []string{cpu, mem} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Positive(t, info.Size())
	}
}

func TestDefaultRunKeepsItsPromises(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.json")
	out := runOK(t, "--json="+name)
	require.NotContains(t, out, "FAIL")
	r := readJSON(t, name).DiskReadsSaved
	require.EqualValues(t, 170_421, r.Stored.On.Gets)
	require.EqualValues(t, 100_000, r.Absent.On.Gets)
	for _, l := range []lookups{r.Stored.Off, r.Stored.On} {
		require.Equal(t, l.Gets, l.Found)
	}
	require.LessOrEqual(t, r.Absent.On.ReadsPerGet, 0.02)
	require.GreaterOrEqual(t, float64(r.Absent.Off.DiskReads), 50*float64(r.Absent.On.DiskReads))
	for _, l := range []lookups{r.Stored.Off, r.Stored.On, r.Absent.Off, r.Absent.On} {
		require.Equal(t, l.StoreDataReads, l.DataReads)
		require.Equal(t, l.StoreIndexReads, l.IndexReads)
		require.Equal(t, l.DiskReads, l.DataReads+l.IndexReads+l.OpeningReads)
	}
	for _, l := range []lookups{r.Stored.On, r.Absent.On} {
		require.Equal(t, l.FilterChecks, l.FilterNegatives+l.FilterTruePositives+l.FilterFalsePositives)
		require.Equal(t, l.TablesConsulted, l.FilterChecks)
	}
	require.LessOrEqual(t, r.Absent.On.DataReads, r.Absent.On.FilterFalsePositives)
	for _, c := range r.Checks {
		require.True(t, c.Passed, c.Name)
	}
	require.Len(t, r.Checks, 5)

	// README.md and docs/reads.svg have these figures. Counts of reads are the same in each run.
	require.InDelta(t, 1.18, r.Absent.Off.ReadsPerGet, 0.005)
	require.InDelta(t, 0.010, r.Absent.On.ReadsPerGet, 0.0005)
}

func TestAFileThatCannotBeWrittenFailsBeforeTheRun(t *testing.T) {
	for _, flag := range []string{"--json", "--memprofile"} {
		var stdout, stderr bytes.Buffer
		name := filepath.Join(t.TempDir(), "none", "file")
		args := []string{"--num=100", "--benchmarks=fillseq", flag + "=" + name}
		require.Equal(t, exitFailed, run(t.Context(), args, &stdout, &stderr))
		require.Empty(t, stdout.String())
		require.Contains(t, stderr.String(), name)
	}
}
