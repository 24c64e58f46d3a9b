package db_test

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
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

// piecesOptions returns options with tables so small that a compaction of a few hundred entries is
// divided. No background compaction begins as long as only level 0 grows.
func piecesOptions(fs vfs.FS, slots int) *db.Options {
	o := testOptions(fs)
	o.Tables.Size, o.Tables.Compression, o.Compaction.MaxConcurrent = 4<<10, db.NoCompression, slots
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1000, 1000, 2000
	return o
}

// Each operation of a divided compaction fails, once or from then on. The compaction has no effect,
// or it is complete when the database is reopened.
func TestAFailureAtAnyOperationOfADividedCompactionLosesNothing(t *testing.T) {
	const keys = 400
	full := vfs.NewMem()
	d := mustOpen(t, piecesOptions(full, 3))
	for range 2 {
		fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())

	step := int64(1)
	if sampled() {
		step = 11
	}
	failures, done := 0, 0
	for at := int64(1); done < 2; at += step {
		for _, kind := range []error{syscall.EIO, syscall.ENOSPC} {
			for _, sticky := range []bool{false, true} {
				var begun atomic.Bool
				var ops, ofTables atomic.Int64
				mem := copyFS(t, full)
				d := openTest(t, piecesOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
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
					require.NoError(t, strayFilesWhenIdle(d, mem))
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
					requireValue(t, d, testKey(k), testValue(k))
				}
				_ = d.Close() // the MANIFEST may have failed
				d = openTest(t, piecesOptions(mem, 3))
				for k := range keys {
					requireValue(t, d, testKey(k), testValue(k))
				}
				require.NoError(t, strayFilesWhenIdle(d, mem))
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
	d := mustOpen(t, piecesOptions(r, 3))
	for range 2 {
		fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	from := len(r.Trace().Ops)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	m := d.Metrics()
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
	require.NoError(t, d.Close())
	limit := 0
	if sampled() {
		limit = 200
	}
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		d, err := db.Open("db", piecesOptions(mem, 1))
		if err != nil {
			if m == recorder.M4 && errors.Is(err, db.ErrCorruption) {
				return nil
			}
			return err
		}
		for k := range keys {
			if v, err := d.Get(testKey(k)); err != nil || string(v) != string(testValue(k)) {
				return errors.Join(fmt.Errorf("key %d is %q", k, v), err, d.Close())
			}
		}
		waitUntilIdle(d)
		return errors.Join(strayFilesWhenIdle(d, mem), d.Close())
	}
	n, err := eachState(r.Trace(), crashModels(t), 1, limit, judge)
	requireNoFailure(t, err)
	t.Logf("%d states", n)
}
