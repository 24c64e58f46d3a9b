package db

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// burstStore returns a store whose clock stands still, and what moves it on.
func burstStore(t *testing.T) (d *DB, pass func(time.Duration)) {
	o := testOptions(NewMemFS())
	o.WriteBufferSize = 16 << 10
	d = openTest(t, o)
	now := time.Unix(1e9, 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.burst.clock = func() time.Time { return now }
	return d, func(by time.Duration) {
		d.mu.Lock()
		defer d.mu.Unlock()
		now = now.Add(by)
	}
}

// fillMemtables writes until n tables were flushed in all, and waits for what that starts.
func fillMemtables(t *testing.T, d *DB, n int) {
	t.Helper()
	for i := 0; d.Metrics().Flushes < uint64(n); i++ {
		require.NoError(t, d.Put(testKey(i%50), testValue(i), NoSync)) // tables of the same range
		d.mu.Lock()
		for len(d.state.Load().imm) > 0 || d.flushing || d.compactions > 0 {
			d.cond.Wait()
		}
		d.mu.Unlock()
	}
}

// requireCompacted waits until level 0 is not worth a compaction.
func requireCompacted(t *testing.T, d *DB) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.state.Load().version.Levels[0].Files) >= d.opts.L0CompactionTrigger || d.compactions > 0 {
		require.NoError(t, d.compactionErr)
		d.cond.Wait()
	}
}

func TestLevelZeroGathersTwiceTheTablesInABurst(t *testing.T) {
	d, _ := burstStore(t)
	for n := 1; n < 8; n++ {
		fillMemtables(t, d, n)
		require.Equal(t, n, d.Metrics().Levels[0].Tables)
		require.Zero(t, d.Metrics().Compactions)
	}
	fillMemtables(t, d, 8)
	requireCompacted(t, d)
}

func TestTheEndOfABurstIsNoticedUnasked(t *testing.T) {
	d, pass := burstStore(t)
	fillMemtables(t, d, 5)
	require.Equal(t, 5, d.Metrics().Levels[0].Tables)
	pass(burstPause)
	requireCompacted(t, d)

	fillMemtables(t, d, 5+3) // the next burst, fewer tables than are worth a compaction
	pass(burstPause)
	require.NoError(t, d.Close(), "nobody waits for what is not due")
}

func TestFlushEndsABurst(t *testing.T) {
	d, _ := burstStore(t)
	d.mu.Lock()
	d.burst.watching = true // nobody else notices the end
	d.mu.Unlock()
	fillMemtables(t, d, 5)
	require.NoError(t, d.Flush())
	requireCompacted(t, d)
	m := d.Metrics()
	require.Zero(t, m.Levels[0].Tables, "the compaction has waited for the flushed table")
	require.EqualValues(t, 1, m.Compactions)
}

func TestFlushOfNothingEndsABurst(t *testing.T) {
	d, _ := burstStore(t)
	hold := func(held bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.placing, d.burst.watching = held, true
	}
	hold(true)
	for i := range 5 {
		require.NoError(t, d.Put(testKey(1), testValue(i), NoSync))
		require.NoError(t, d.Flush())
	}
	d.mu.Lock()
	d.burst.note()
	d.mu.Unlock()
	hold(false)
	require.NoError(t, d.Flush())
	requireCompacted(t, d)
	require.Zero(t, d.Metrics().Levels[0].Tables)
}

func TestCloseDoesNotWaitForTheEndOfABurst(t *testing.T) {
	d, _ := burstStore(t)
	fillMemtables(t, d, 5)
	d.mu.Lock()
	watching := d.burst.watching
	d.mu.Unlock()
	require.True(t, watching)
	require.NoError(t, d.Close()) // the clock stands still: the burst never ends
}

func TestABurstStaysClearOfTheSlowdown(t *testing.T) {
	for _, c := range []struct{ trigger, slowdown, want int }{
		{4, 12, 8}, {1, 12, 2}, {6, 12, 8}, {8, 12, 8}, {12, 12, 12}, {100, 300, 200}, {1, 1, 1}, {2, 3, 2},
	} {
		o := Options{L0CompactionTrigger: c.trigger, L0SlowdownTrigger: c.slowdown}
		require.Equal(t, c.want, o.burstTrigger(), "%+v", c)
	}
}
