package throttle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteLimitFollowsTheBacklog(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name           string
		tables, queued int     // tables in level 0, and waiting memtables
		flushRate      float64 // bytes per second
		reason         string  // "" for no limit
		rate           float64
	}{
		{"no limit below the triggers", 99, 1, 50 * mib, "", 0},
		{"the first table too many hardly matters", 100, 0, 0, SlowLevel0, 64 * mib},
		{"an eighth of the rate half-way to the stop trigger", 105, 0, 0, SlowLevel0, 8 * mib},
		{"a sixty-fourth of the rate at the stop trigger", 110, 0, 0, SlowLevel0, 1 * mib},
		{"no less after the stop trigger", 150, 0, 0, SlowLevel0, 1 * mib},
		{"no memtable is left, and flushes are fast", 0, 2, 50 * mib, SlowMemtables, 40 * mib},
		{"no memtable is left, and flushes hang", 0, 2, 1, SlowMemtables, 1 * mib},
		{"no memtable is left, and no flush was seen", 0, 2, 0, "", 0},
		{"memtables set the slower rate", 100, 2, 50 * mib, SlowMemtables, 40 * mib},
		{"level 0 sets the slower rate", 105, 2, 50 * mib, SlowLevel0, 8 * mib},
	} {
		t.Run(c.name, func(t *testing.T) {
			th := New(Options{Limits: Limits{L0SlowdownTrigger: 100, L0StopTrigger: 110, MaxMemtables: 2}})
			if c.flushRate > 0 {
				th.ObserveFlush(int(c.flushRate), int(c.flushRate), time.Second)
				th.ObserveFlush(int(c.flushRate)/3, int(c.flushRate), time.Hour) // half empty: ignored
			}
			th.Update(c.tables, c.queued, 0)
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

func TestGarbageOfValuesLimitsTheRate(t *testing.T) {
	th := New(Options{Limits: Limits{L0SlowdownTrigger: 100, L0StopTrigger: 110, MaxMemtables: 2}})
	for garbage, mib := range map[float64]float64{0.5: 8, 1: 1} {
		th.Update(0, 0, garbage)
		require.Equal(t, SlowValues, th.limit.Load().reason)
		require.InEpsilon(t, mib*(1<<20), 1e9/th.limit.Load().nanosPerByte, 1e-9)
	}
	th.Update(0, 0, 0)
	require.Nil(t, th.limit.Load())
}

func TestALeaderWaitsInProportionToItsRecords(t *testing.T) {
	var waits []time.Duration
	var th *Throttle
	var stalls []string
	th = New(Options{
		Limits: Limits{L0SlowdownTrigger: 10, L0StopTrigger: 20, MaxMemtables: 2},
		Pause: func(wait time.Duration) {
			require.Equal(t, SlowLevel0, th.Now())
			waits = append(waits, wait)
		},
		Stalled: func(reason string, stopped bool, _ time.Duration) {
			require.False(t, stopped)
			stalls = append(stalls, reason)
		},
	})
	th.Slow(1 << 30)
	require.Empty(t, waits, "without a limit nothing is owed")
	th.Update(20, 0, 0) // a mebibyte a second
	third := int(portion.Seconds() * (1 << 20) / 3)
	for range 3 {
		th.Slow(third)
		require.Empty(t, stalls, "small debts add up before they are slept off")
	}
	th.Slow(third)
	require.Len(t, stalls, 1)
	waits = nil
	th.Slow(1 << 30)
	require.Equal(t, []time.Duration{50 * time.Millisecond}, waits, "no single wait is longer")
	require.Equal(t, []string{SlowLevel0, SlowLevel0}, stalls)
	require.Empty(t, th.Now())
	th.Update(9, 0, 0)
	th.Slow(1 << 30)
	require.Len(t, waits, 1)
	th.SetLimits(Limits{L0SlowdownTrigger: 5, L0StopTrigger: 9, MaxMemtables: 2})
	th.Update(9, 0, 0)
	th.Slow(1 << 30)
	require.Len(t, waits, 2, "new limits count")
}

// Sleeps take longer than was asked for. What writers get is what they are granted all the same.
func TestWritersGetTheRateThatIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(wait time.Duration) { time.Sleep(wait + 80*time.Microsecond) }
		th := New(Options{
			Limits: Limits{L0SlowdownTrigger: 10, L0StopTrigger: 20, MaxMemtables: 2},
			Pause:  late, Stalled: func(string, bool, time.Duration) {},
		})
		th.brief = func(wait time.Duration) bool { late(wait); return true }
		th.Update(10, 0, 0)
		began := time.Now()
		for range 100_000 {
			th.Slow(130)
		}
		require.InEpsilon(t, 100_000*130/float64(startRate), time.Since(began).Seconds(), 0.01)
	})
}

func TestABriefWaitWaits(t *testing.T) {
	began, waits := time.Now(), 0
	for brief(portion) && time.Since(began) < 10*portion {
		waits++
	}
	require.Less(t, waits, 100, "at most 10, but a signal may end one early")
	require.False(t, brief(time.Millisecond), "Pause does that")
}

func TestWaitsAddUpByReason(t *testing.T) {
	th := New(Options{Stalled: func(string, bool, time.Duration) {}})
	require.Nil(t, th.Waits())
	th.Record(StopLevel0, true, 2*time.Second)
	th.Record(StopMemtables, true, time.Second)
	th.Record(StopLevel0, true, time.Second)
	require.Equal(t, map[string]Total{
		StopLevel0:    {Count: 2, Duration: 3 * time.Second, Longest: 2 * time.Second},
		StopMemtables: {Count: 1, Duration: time.Second, Longest: time.Second},
	}, th.Waits())
}
