package throttle

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARateSpreadsWorkOverTime(t *testing.T) {
	var r Rate
	now := time.Unix(1000, 0)
	require.Equal(t, time.Second, r.Take(100, 100, now))
	require.Equal(t, 3*time.Second, r.Take(200, 100, now), "the debts add up")
	now = now.Add(2 * time.Second)
	require.Equal(t, 2*time.Second, r.Take(100, 100, now))
	require.Equal(t, 2*time.Second, r.Take(0, 100, now))
	now = now.Add(time.Hour)
	require.Equal(t, time.Second, r.Take(100, 100, now), "idle time is not saved up")
	r.Forgive()
	require.Equal(t, time.Millisecond, r.Take(1, 1000, now))
	require.Positive(t, r.Take(math.MaxUint64, 1, now), "no overflow")
}

// Goroutines that share a Rate keep it together.
func TestGoroutinesShareARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rate
		var group sync.WaitGroup
		start := time.Now()
		for range 4 {
			group.Go(func() {
				for range 25 {
					time.Sleep(r.Take(1<<20, 10<<20, time.Now()))
				}
			})
		}
		group.Wait()
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
