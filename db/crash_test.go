package db

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
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
	total, limit, fewest := 7000, cutsToTry(0, 600), 10000
	if sampled() {
		total, fewest = 3000, 0
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
		j.judgeAll(t, "crash at every operation", trace, limit, j.judge)
	})
}

// Some writes are buffered. The process is killed (M1 keeps all writes that reached the system, M2
// nearly all) or the power fails. The recovered entries are those of a prefix of the commits that holds
// the promised ones. A buffered write is promised only if a write that promises more follows it.
func TestCrashesOfBufferedWritesLeaveAPrefix(t *testing.T) {
	total := 3000
	if sampled() {
		total = 1500
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, buffered: true}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 3, 3)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		j.judgeAll(t, "crash of buffered writes", trace, cutsToTry(1500, 200), j.judge)
	})
}

// The power fails, and fails again at every operation of the recovery. Entries that were there before
// the first recovery are there after the second.
//
//make:gates
func TestCrashAtEveryOperationOfARecovery(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		w, trace := crashRecord(t, seed, 3000, 3, 3, 0)
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		j.judgeAll(t, "crash during recovery", trace, cutsToTry(200, 15), j.judgeNested)
	})
}
