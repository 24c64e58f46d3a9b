package db

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheLimitOfWritesFollowsTheDebt(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name           string
		tables, queued int     // of level 0, memtables
		flushRate      float64 // bytes a second
		reason         string  // "" for no limit
		rate           float64
	}{
		{"nothing is behind", 99, 1, 50 * mib, "", 0},
		{"the first table too many is hardly felt", 100, 0, 0, slowLevel0, 64 * mib},
		{"half-way to the stop it is an eighth", 105, 0, 0, slowLevel0, 8 * mib},
		{"at the stop it is a sixty-fourth", 110, 0, 0, slowLevel0, 1 * mib},
		{"and no less behind it", 150, 0, 0, slowLevel0, 1 * mib},
		{"no memtable is left, and flushes are fast", 0, 2, 50 * mib, slowMemtables, 40 * mib},
		{"no memtable is left, and flushes hang", 0, 2, 1, slowMemtables, 1 * mib},
		{"no memtable is left, and no flush was seen", 0, 2, 0, "", 0},
		{"the slower of both counts: memtables", 100, 2, 50 * mib, slowMemtables, 40 * mib},
		{"the slower of both counts: level 0", 105, 2, 50 * mib, slowLevel0, 8 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			th := newThrottle(throttleOptions{L0SlowdownTrigger: 100, L0StopTrigger: 110, MaxMemtables: 2})
			if c.flushRate > 0 {
				th.noteFlush(int(c.flushRate), int(c.flushRate), time.Second)
				th.noteFlush(int(c.flushRate)/3, int(c.flushRate), time.Hour) // half empty: ignored
			}
			th.update(c.tables, c.queued)
			limit := th.limit.Load()
			if c.reason == "" {
				require.Nil(t, limit)
				return
			}
			require.NotNil(t, limit)
			require.Equal(t, c.reason, limit.reason)
			require.InEpsilon(t, c.rate, 1e9/limit.nanosPerByte, 1e-9)
		})
	}
}

func TestALeaderWaitsForWhatItsRecordsCost(t *testing.T) {
	var waits []time.Duration
	var th *writeThrottle
	var stalls []string
	th = newThrottle(throttleOptions{
		L0SlowdownTrigger: 10, L0StopTrigger: 20, MaxMemtables: 2,
		Pause: func(wait time.Duration) {
			require.Equal(t, slowLevel0, th.now())
			waits = append(waits, wait)
		},
		Stalled: func(reason string, stopped bool, _ time.Duration) {
			require.False(t, stopped)
			stalls = append(stalls, reason)
		},
	})
	th.slow(1 << 30)
	require.Empty(t, waits, "without a limit nothing is owed")
	th.update(20, 0) // a mebibyte a second
	for range 4 {
		th.slow(300) // under a third of a millisecond each
	}
	require.Len(t, waits, 1, "small debts add up before they are slept off")
	require.Greater(t, waits[0], time.Millisecond)
	th.slow(1 << 30)
	require.Equal(t, 50*time.Millisecond, waits[1], "no single wait is longer")
	require.Equal(t, []string{slowLevel0, slowLevel0}, stalls)
	require.Empty(t, th.now())
	th.update(9, 0)
	th.slow(1 << 30)
	require.Len(t, waits, 2)
}

func TestWaitsAddUpByReason(t *testing.T) {
	th := newThrottle(throttleOptions{Stalled: func(string, bool, time.Duration) {}})
	require.Nil(t, th.waits())
	th.record(stopLevel0, true, 2*time.Second)
	th.record(stopMemtables, true, time.Second)
	th.record(stopLevel0, true, time.Second)
	require.Equal(t, map[string]stallTotal{
		stopLevel0:    {Stalls: 2, Time: 3 * time.Second, Longest: 2 * time.Second},
		stopMemtables: {Stalls: 1, Time: time.Second, Longest: time.Second},
	}, th.waits())
}
