package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test's own clock advances by the duration of each operation.
func TestAPauseCountsForAllOperationsDueInIt(t *testing.T) {
	const tick = time.Microsecond // of the ticker, not of the clock below
	clock, stop := time.Duration(0), make(chan struct{})
	p := pace{each: 10, tick: tick, elapsed: func() time.Duration { return clock }}
	clock = tick
	n := 0
	r, err := p.keep(stop, func() error {
		if n++; n == 5 {
			clock += 100 * tick // in which 1,000 more are due
		}
		if n == 1010 {
			close(stop)
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1010, r.ops)
	require.Equal(t, 101*tick, r.time)
	require.EqualValues(t, 1010, r.waits.TotalCount())
	require.Zero(t, r.waits.ValueAtQuantile(0.1), "before the pause")
	require.InDelta(t, 50*tick, r.waits.ValueAtQuantile(50), float64(2*tick))
	require.InDelta(t, 100*tick, r.waits.Max(), float64(tick))
}

func TestUnfinishedOperationsWaitUntilTheEnd(t *testing.T) {
	const tick = time.Microsecond
	clock, stop := tick, make(chan struct{})
	p := pace{each: 10, tick: tick, elapsed: func() time.Duration { return clock }}
	r, err := p.keep(stop, func() error {
		clock += 9 * tick
		close(stop)
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.ops)
	require.EqualValues(t, 100, r.waits.TotalCount())
}

func TestAFailureEndsThePace(t *testing.T) {
	broken := errors.New("broken")
	_, err := pace{each: 1, tick: time.Microsecond, elapsed: func() time.Duration { return time.Hour }}.
		keep(make(chan struct{}), func() error { return broken })
	require.ErrorIs(t, err, broken)
}
