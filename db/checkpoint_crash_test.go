package db

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
)

// The power fails at every operation while checkpoints are made. Each of them is there completely, with
// all writes that were acknowledged before it, or not at all. Once it was made, it is there. The store
// itself recovers as usual, and what an unfinished checkpoint left makes way for the next one.
func TestCrashAtEveryOperationOfCheckpoints(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, checkpoints: true}
		r := recorder.New(recorder.Image{})
		w.run(t, r, 1000, 3, 3)
		require.Greater(t, len(w.copies), 3)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
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
		d, err := Open("db", crashOptions(mem, j.seed))
		if err != nil {
			return nil // judged elsewhere
		}
		_, err = d.Checkpoint(background, c.dir, nil)
		if cerr := d.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	d, err := Open(c.dir, crashOptions(mem, j.seed))
	if err != nil {
		return err
	}
	state, err := dump(d)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
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
