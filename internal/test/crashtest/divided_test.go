package crashtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

// Each operation of a divided compaction fails, once or from then on. The compaction has no effect,
// or it is complete when the database is reopened.
func TestAFailureAtAnyOperationOfADividedCompactionLosesNothing(t *testing.T) {
	const keys = 400
	full := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.DividedOptions(full, 3))
	for range 2 {
		storetest.Fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())

	step := int64(1)
	if race.Sampled() {
		step = 11
	}
	failures, done := 0, 0
	for at := int64(1); done < 2; at += step {
		for _, kind := range []error{syscall.EIO, syscall.ENOSPC} {
			for _, sticky := range []bool{false, true} {
				var begun atomic.Bool
				var ops, ofTables atomic.Int64
				mem := fixture.CopyFS(t, full)
				d := storetest.Open(t, storetest.DividedOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if !begun.Load() {
						return nil
					}
					n := ops.Add(1)
					if n != at && (n < at || !sticky) {
						return nil
					}
					if filepath.Ext(op.Name) == ".ldb" && op.Kind != wrap.OpRemove {
						ofTables.Add(1)
					}
					return &wrap.Fault{Err: kind}
				}), 3))
				begun.Store(true)
				err := d.Compact(t.Context(), nil, nil)
				begun.Store(false)
				if !sticky && ofTables.Load() > 0 { // otherwise files may wait for the next open
					require.NoError(t, storetest.StrayFilesWhenIdle(d, mem))
				}
				switch {
				case ops.Load() < at: // the compaction had fewer operations
					require.NoError(t, err)
					done++
				case err != nil:
					failures++
					require.ErrorIs(t, err, kind)
					require.NotErrorIs(t, err, compact.ErrStopped)
				}
				for k := range keys {
					storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
				}
				_ = d.Close() // the MANIFEST may have failed
				d = storetest.Open(t, storetest.DividedOptions(mem, 3))
				for k := range keys {
					storetest.RequireValue(t, d, fixture.Key(k), fixture.Value(k))
				}
				require.NoError(t, storetest.StrayFilesWhenIdle(d, mem))
				require.NoError(t, d.Close())
			}
		}
	}
	require.Greater(t, failures, 400/int(step))
}

// The power fails at every operation of a compaction that is divided into pieces.
func TestCrashAtEveryOperationOfADividedCompaction(t *testing.T) {
	const keys = 500
	r := recorder.New(recorder.Image{})
	d := storetest.MustOpen(t, storetest.DividedOptions(r, 3))
	for range 2 {
		storetest.Fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	from := len(r.Trace().Ops)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	m := d.Metrics()
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
	require.NoError(t, d.Close())
	limit := 0
	if race.Sampled() {
		limit = 200
	}
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		d, err := db.Open("db", storetest.DividedOptions(mem, 1))
		if err != nil {
			if m == recorder.M4 && errors.Is(err, db.ErrCorruption) {
				return nil
			}
			return err
		}
		for k := range keys {
			if v, err := d.Get(fixture.Key(k)); err != nil || string(v) != string(fixture.Value(k)) {
				return errors.Join(fmt.Errorf("key %d is %q", k, v), err, d.Close())
			}
		}
		storetest.WaitUntilIdle(d)
		return errors.Join(storetest.StrayFilesWhenIdle(d, mem), d.Close())
	}
	n, err := cuts.EachState(r.Trace(), cuts.Models(t), 1, limit, judge)
	cuts.RequireNoFailure(t, err)
	t.Logf("%d states", n)
}
