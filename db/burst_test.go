package db

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

// burstStore returns a store with a stopped clock, and a function that advances the clock.
func burstStore(t *testing.T) (d *DB, advance func(time.Duration)) {
	o := testOptions(vfs.NewMem())
	o.Memtables.Size = 16 << 10
	d = openTest(t, o)
	var passed atomic.Int64
	d.compactor.SetClock(func() time.Time { return time.Unix(1e9, passed.Load()) })
	return d, func(by time.Duration) { passed.Add(int64(by)) }
}

// fillMemtables writes until n memtables have been flushed in all, and waits for the compactions
// that this starts.
func fillMemtables(t *testing.T, d *DB, n int) {
	t.Helper()
	for i := 0; d.Metrics().Flushes.Count < uint64(n); i++ {
		require.NoError(t, d.Put(testKey(i%50), testValue(i), NoSync)) // tables of the same range
		waitUntilIdle(d)
	}
}

// requireCompacted waits until level 0 is not worth a compaction.
func requireCompacted(t *testing.T, d *DB) {
	t.Helper()
	eventually(t, func() bool {
		require.NoError(t, d.compactor.Status().Err)
		return len(d.state().Version.Levels[0].Files) < d.opts.Compaction.L0Trigger && d.compactor.Idle()
	})
}

func TestLevelZeroGathersTwiceTheTablesInABurst(t *testing.T) {
	d, _ := burstStore(t)
	for n := 1; n < 8; n++ {
		fillMemtables(t, d, n)
		require.Equal(t, n, d.Metrics().Levels[0].Tables)
		require.Zero(t, d.Metrics().Compactions.Count)
	}
	fillMemtables(t, d, 8)
	requireCompacted(t, d)
}

func TestTheEndOfABurstIsNoticedAutomatically(t *testing.T) {
	d, advance := burstStore(t)
	fillMemtables(t, d, 5)
	require.Equal(t, 5, d.Metrics().Levels[0].Tables)
	advance(compact.BurstPause)
	requireCompacted(t, d)

	fillMemtables(t, d, 5+3) // the next burst leaves too few tables for a compaction
	advance(compact.BurstPause)
	require.NoError(t, d.Close(), "Close does not wait for a compaction that is not due")
}

func TestFlushEndsABurst(t *testing.T) {
	d, _ := burstStore(t)
	fillMemtables(t, d, 5)
	require.NoError(t, d.Flush())
	requireCompacted(t, d)
	m := d.Metrics()
	require.Zero(t, m.Levels[0].Tables, "the compaction has waited for the flushed table")
	require.EqualValues(t, 1, m.Compactions.Count)
}

func TestFlushOfNothingEndsABurst(t *testing.T) {
	d, _ := burstStore(t)
	release := d.compactor.Hold()
	for i := range 5 {
		require.NoError(t, d.Put(testKey(1), testValue(i), NoSync))
		require.NoError(t, d.Flush())
	}
	d.compactor.NoteFull()
	release()
	require.NoError(t, d.Flush())
	requireCompacted(t, d)
	require.Zero(t, d.Metrics().Levels[0].Tables)
}

func TestCloseDoesNotWaitForTheEndOfABurst(t *testing.T) {
	d, _ := burstStore(t)
	fillMemtables(t, d, 5)
	require.True(t, d.compactor.Status().Gathering)
	require.NoError(t, d.Close()) // the clock is stopped, so the burst never ends
}
