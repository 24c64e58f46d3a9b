package db

import (
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/vfs"
)

// While tables cannot be written, writers get an error instead of hanging, reads work, and nothing
// is lost. Once tables can be written again, the store continues without being reopened.
func TestWritersGetErrorsWhileFlushesFailAndContinueAfterwards(t *testing.T) {
	var full atomic.Bool
	fsys := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if full.Load() && op.Kind == wrap.OpWrite && filepath.Ext(op.Name) == ".ldb" {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	o := testOptions(fsys)
	// The bug: a writer that had got room could still get the earlier error at its next switch of
	// memtables.
	var stale atomic.Int64
	var d *DB
	o.EventListener = &EventListener{FlushEnd: func(i FlushInfo) {
		if i.Err == nil && d.Metrics().BackgroundError != nil {
			stale.Add(1)
		}
	}}
	d = openTest(t, o)
	full.Store(true)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = d.Put(testKey(n), testValue(n), NoSync)
	}
	n-- // the refused one
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, d.Metrics().BackgroundError, syscall.ENOSPC)
	require.NotErrorIs(t, err, ErrReadOnly, "the error is not final")
	for i := range n {
		requireValue(t, d, testKey(i), testValue(i))
	}
	full.Store(false)
	eventually(t, func() bool { return d.Put(testKey(n), testValue(n), NoSync) == nil })
	require.NoError(t, d.Flush())
	for i := range n + 1 {
		requireValue(t, d, testKey(i), testValue(i))
	}
	require.NoError(t, d.Metrics().BackgroundError)
	require.Zero(t, stale.Load(), "flushes that succeeded but left an error")
}

func TestWritesAreSlowedBeforeTheyStop(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = 2, 3, 6
	o.Compaction.MaxConcurrent = 1
	var slowed, stopped atomic.Int64
	o.EventListener = &EventListener{
		WriteStall: func(i WriteStallInfo) {
			if i.Stopped {
				stopped.Add(1)
			} else {
				slowed.Add(1)
			}
		},
		// Each compaction waits until writers have been slowed, and for ever only if they never are.
		CompactionBegin: func(CompactionInfo) {
			for deadline := time.Now().Add(time.Minute); slowed.Load() == 0 && time.Now().Before(deadline); {
				<-time.After(time.Millisecond)
			}
		},
	}
	d := openTest(t, o)
	fill(t, d, 0, 3000)
	settle(t, d)
	m := d.Metrics()
	require.Positive(t, slowed.Load(), "between the triggers writes are slowed")
	require.EqualValues(t, slowed.Load()+stopped.Load(), m.Stalls.Count)
	require.Positive(t, m.Stalls.Duration)
	var sum StallTotal
	for reason, total := range m.Stalls.ByReason {
		require.Contains(t, []string{throttle.SlowLevel0, throttle.SlowMemtables, throttle.StopLevel0, throttle.StopMemtables}, reason)
		require.LessOrEqual(t, total.Longest, total.Duration)
		sum.Count += total.Count
		sum.Duration += total.Duration
	}
	require.Equal(t, StallTotal{Count: m.Stalls.Count, Duration: m.Stalls.Duration}, sum)
	require.Empty(t, m.Stalls.CurrentReason, "no writer waits now")
}
