package crashtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/race"
)

// The power fails at every operation of a long run, and the disk is left as the models define. The
// recovered entries are those of a prefix of the commits that holds the promised ones.
//
//make:gates
func TestCrashAtEveryOperation(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		start := time.Now()
		w := &crashWorkload{seed: seed, keys: 150, fewest: inRun(3000, 0)}
		trace, j := w.record(t, inRun(2100, 1000), 3)
		rolls := manifestRolls(trace, w.opened)
		t.Logf("seed %d: %d operations, %d batches, %d flushes, %d compactions, %d moves, %d MANIFEST rolls, recorded in %v",
			seed, len(trace.Ops), j.history.Len(), w.metrics.Flushes.Count, w.metrics.Compactions.Count, w.metrics.Compactions.TrivialMoves, rolls, time.Since(start))
		if !race.Sampled() {
			require.GreaterOrEqual(t, len(trace.Ops), w.fewest)
			require.GreaterOrEqual(t, w.metrics.Flushes.Count, uint64(30))
			require.GreaterOrEqual(t, w.metrics.Compactions.Count, uint64(10))
			require.Positive(t, rolls)
		}
		j.judgeAll(t, "crash at every operation", trace, cutsToTry(0, 300), j.judge)
	})
}

// Some writes are buffered. The process is killed (M1 keeps all writes that reached the system, M2
// nearly all) or the power fails. The recovered entries are those of a prefix of the commits that holds
// the promised ones. A buffered write is promised only if a write that promises more follows it.
func TestCrashesOfBufferedWritesLeaveAPrefix(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, buffered: true}
		trace, j := w.record(t, inRun(3000, 1500), 3)
		j.judgeAll(t, "crash of buffered writes", trace, cutsToTry(1500, 100), j.judge)
	})
}

// The power fails at every operation of a run during which tables are upgraded continuously.
func TestCrashesDuringUpgrades(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, upgrades: true}
		trace, j := w.record(t, inRun(2000, 500), 3)
		require.Positive(t, w.upgraded)
		j.judgeAll(t, "crash during upgrades", trace, cutsToTry(1500, 100), j.judge)
	})
}

// The logs move to another directory and back while the power fails at every operation, and the store
// is opened with any value of LogDir afterwards.
func TestCrashAtEveryOperationWhileTheLogsMove(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, logDirs: []string{"logs", "", "db", "logs", "db", ""}}
		trace, j := w.record(t, 1200, len(w.logDirs))
		j.judgeAll(t, "crash while the logs move", trace, cutsToTry(1500, 100), j.judge)
		j.judgeAll(t, "crash of a recovery while the logs move", trace, cutsToTry(25, 3), j.judgeNested)
		require.NotZero(t, j.recoveries.Load())
	})
}

// The power fails, and fails again at every operation of the recovery. Entries that were there before
// the first recovery are there after the second.
//
//make:gates
func TestCrashAtEveryOperationOfARecovery(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150}
		trace, j := w.record(t, 3000, 3)
		j.judgeAll(t, "crash during recovery", trace, cutsToTry(100, 7), j.judgeNested)
	})
}

// The process is killed or the power fails amid collections of values: no value is lost, and none that was deleted or
// overwritten returns.
func TestCrashAmidCollectionsOfValues(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 400, separated: true}
		trace, j := w.record(t, inRun(4000, 1500), 2)
		require.NotEmpty(t, w.collections.spans)
		var amid atomic.Int64
		j.judgeAll(t, "crash amid collections", trace, cutsToTry(3000, 1500), func(s recorder.State, cut int, m recorder.Model) error {
			if !w.collections.amid(cut) {
				return nil
			}
			amid.Add(1)
			return j.judge(s, cut, m)
		})
		t.Logf("%d collections, %d states amid them", len(w.collections.spans), amid.Load())
		require.NotZero(t, amid.Load())
	})
}

// The power fails at every operation while checkpoints are made. Each of them is there completely, with
// all writes that were acknowledged before it, or not at all. Once it was made, it is there. The store
// itself recovers as usual, and what an unfinished checkpoint left makes way for the next one.
func TestCrashAtEveryOperationOfCheckpoints(t *testing.T) {
	cuts.Seeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, checkpoints: true}
		trace, j := w.record(t, 1000, 3)
		require.Greater(t, len(w.copies), 3)
		j.judgeAll(t, "crash of checkpoints", trace, cutsToTry(1500, 120), func(s recorder.State, cut int, m recorder.Model) error {
			for _, c := range w.copies {
				if err := j.judgeCopy(s, c, cut); err != nil {
					return fmt.Errorf("%s: %w", c.dir, err)
				}
			}
			return j.judge(s, cut, m)
		})
	})
}

// judgeCopy opens a checkpoint, or makes it if there is none.
func (j *crashJudge) judgeCopy(s recorder.State, c crashCopy, cut int) error {
	there := slices.Contains(s.Image.Dirs, c.dir)
	switch {
	case !there && cut >= c.end:
		return fmt.Errorf("it is not there, although it was made by operation %d", c.end)
	case !there && !slices.ContainsFunc(s.Image.Dirs, func(d string) bool { return strings.HasPrefix(d, c.dir+".") }):
		return nil
	}
	mem := s.Mem()
	if !there {
		d, err := db.Open("db", crashOptions(mem, j.seed))
		if err != nil {
			return nil // judged elsewhere
		}
		_, err = d.Checkpoint(context.Background(), c.dir, nil)
		err = errors.Join(err, d.Close())
		if err != nil {
			return err
		}
	}
	d, err := db.Open(c.dir, crashOptions(mem, j.seed))
	if err != nil {
		return err
	}
	state, err := dump(d)
	err = errors.Join(err, d.Close())
	if err != nil || !there {
		return err
	}
	n, err := j.history.Prefix(state)
	if err != nil {
		return err
	}
	low, _ := j.history.Bounds(c.begun, true)
	_, high := j.history.Bounds(c.end, true)
	if n < low || n > high {
		return fmt.Errorf("it has %d batches, want %d to %d", n, low, high)
	}
	return nil
}
