package db

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// crashRecord runs the workload and returns its trace, which has at least fewest operations.
func crashRecord(t testing.TB, seed uint64, total, writers, opens, fewest int) (*crashWorkload, *recorder.Trace) {
	w := &crashWorkload{seed: seed, keys: 150, fewest: fewest}
	r := recorder.New(recorder.Image{})
	w.run(t, r, total, writers, opens)
	return w, r.Trace()
}

// The power fails at every operation of a long run, and the disk is left as the models define. The
// recovered entries are those of a prefix of the commits that holds the promised ones.
//
//make:gates
func TestCrashAtEveryOperation(t *testing.T) {
	total, limit, fewest := 7000, 0, 10000
	if sampled() {
		total, limit, fewest = 3000, 600, 0
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		start := time.Now()
		w, trace := crashRecord(t, seed, total, 3, 4, fewest)
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		rolls := manifestRolls(trace, w.opened)
		t.Logf("seed %d: %d operations, %d batches, %d flushes, %d compactions, %d moves, %d MANIFEST rolls, recorded in %v",
			seed, len(trace.Ops), j.history.Len(), w.metrics.Flushes.Count, w.metrics.Compactions.Count, w.metrics.Compactions.TrivialMoves, rolls, time.Since(start))
		if !sampled() {
			require.GreaterOrEqual(t, len(trace.Ops), fewest)
			require.GreaterOrEqual(t, w.metrics.Flushes.Count, uint64(30))
			require.GreaterOrEqual(t, w.metrics.Compactions.Count, uint64(10))
			require.GreaterOrEqual(t, rolls, 3)
		}
		start = time.Now()
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash at every operation", j, start)
	})
}

// Some writes are buffered. The process is killed (M1 keeps all writes that reached the system, M2
// nearly all) or the power fails. The recovered entries are those of a prefix of the commits that holds
// the promised ones. A buffered write is promised only if a write that promises more follows it.
func TestCrashesOfBufferedWritesLeaveAPrefix(t *testing.T) {
	total, limit := 3000, 1500
	if sampled() {
		total, limit = 1500, 200
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, buffered: true}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 3, 3)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		start := time.Now()
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash of buffered writes", j, start)
	})
}

// The power fails, and fails again at every operation of the recovery. Entries that were there before
// the first recovery are there after the second.
//
//make:gates
func TestCrashAtEveryOperationOfARecovery(t *testing.T) {
	states := 200
	if sampled() {
		states = 15
	}
	if *crashLimit > 0 {
		states = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w, trace := crashRecord(t, seed, 3000, 3, 3, 0)
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		start := time.Now()
		n, err := eachState(trace, crashModels(t), seed, states, j.judgeNested)
		requireNoFailure(t, err)
		logRate(t, "crash during recovery", j, start)
		t.Logf("seed %d: %d states", seed, n)
	})
}

// lyingFS skips syncs and reports success.
type lyingFS struct {
	vfs.FS
	skipDir  bool
	skipFile func(name string) bool
}

func (l lyingFS) SyncDir(dir string) error {
	if l.skipDir {
		return nil
	}
	return l.FS.SyncDir(dir)
}

func (l lyingFS) Create(name string) (vfs.File, error) {
	f, err := l.FS.Create(name)
	if err != nil || l.skipFile == nil || !l.skipFile(name) {
		return f, err
	}
	return lyingFile{f}, nil
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error { return nil }

// The crash tests must find stores that omit a step. Each of these omits one kind of sync, and a power
// cut shows it.
func TestCrashTestsFindStoresThatOmitASync(t *testing.T) {
	skip := func(kind base.FileKind) func(string) bool {
		return func(name string) bool { k, _, ok := base.ParseFileName(name[len("db/"):]); return ok && k == kind }
	}
	cases := map[string]lyingFS{
		"of the directory": {skipDir: true},
		"of logs":          {skipFile: skip(base.FileLog)},
		"of tables":        {skipFile: skip(base.FileTable)},
		"of the MANIFEST":  {skipFile: skip(base.FileManifest)},
		"of CURRENT":       {skipFile: skip(base.FileTemp)},
	}
	for name, lie := range cases {
		t.Run(name, func(t *testing.T) {
			w := &crashWorkload{seed: 3, keys: 150, wrap: func(fsys vfs.FS) vfs.FS { lie.FS = fsys; return lie }}
			r := recorder.New(recorder.Image{})
			w.run(t, r, 1200, 3, 2)
			trace := r.Trace()
			j := &crashJudge{seed: 3, history: w.history(t, trace)}
			_, err := eachState(trace, []recorder.Model{recorder.M0, recorder.M3}, 3, 0, func(s recorder.State, cut int, m recorder.Model) error {
				return j.judgeOnly(s, cut, m.KeepsAll())
			})
			require.Error(t, err)
			t.Log(err)
		})
	}
}
