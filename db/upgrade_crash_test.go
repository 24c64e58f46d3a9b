package db_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
)

// The power fails at every operation of a run during which tables are upgraded continuously.
func TestCrashesDuringUpgrades(t *testing.T) {
	total, limit := 2000, 1500
	if sampled() {
		total, limit = 500, 100
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, upgrades: true}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 2, 3)
		require.Positive(t, w.upgraded)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		start := time.Now()
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash during upgrades", j, start)
	})
}
