package db_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// everyLogDir has the values of Options.LogDir: what was recorded, elsewhere, and back.
var everyLogDir = []string{"logs", "", "db", "logs", "db", ""}

// The logs move to another directory and back while the power fails at every operation, and the store
// is opened with any value of LogDir afterwards.
func TestCrashAtEveryOperationWhileTheLogsMove(t *testing.T) {
	limit, states := 1500, 25
	if sampled() {
		limit, states = 100, 3
	}
	if *crashLimit > 0 {
		limit, states = *crashLimit, *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, logDirs: everyLogDir}
		r := recorder.New(recorder.Image{})
		w.run(t, r, 1200, 3, len(everyLogDir))
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace), logDirs: everyLogDir}
		start := time.Now()
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		_, err = eachState(trace, crashModels(t), seed, states, j.judgeNested)
		requireNoFailure(t, err)
		logRate(t, "crash while the logs move", j, start)
		require.NotZero(t, j.recoveries.Load())
	})
}

// Each operation fails, alone or with all that follow, while the logs move. Every answer is right or an
// error, nothing acknowledged is lost, and the store opens afterwards without LogDir.
func TestAnErrorAtEveryOperationWhileTheLogsMove(t *testing.T) {
	step := uint64(29)
	if sampled() {
		step = 353
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		logDirs := []string{"logs", "", "db", "logs"}
		r := newFaultRun(seed, 1)
		r.logDirs = logDirs
		counts := faultCounts(t, vfs.NewMem(), r)
		for k, kind := range faultKinds {
			for _, sticky := range []bool{false, true} {
				require.NoError(t, runFaultCases(int(counts[k]/step), 10, func(i int) error {
					return faultCase{kind: kind, sticky: sticky, at: 1 + uint64(i)*step + seed%step, seed: seed, scale: 1, logDirs: logDirs}.run()
				}))
			}
		}
	})
}
