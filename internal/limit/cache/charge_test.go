package cache

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAChargeReservesAndReturnsRoom(t *testing.T) {
	for _, shards := range []int{1, 4} {
		left := 0
		c := newSharded(1000, shards, func(*int) { left++ })
		slots := make([]Slot[int], 200)
		fill := func() {
			for i := range slots {
				put(t, c, &slots[i], i, 10)
			}
		}
		for _, tc := range []struct{ charge, room int64 }{{300, 700}, {0, 700}, {600, 100}, {99, 0}, {500, 0}, {-1499, 1000}} {
			c.Charge(tc.charge)
			m := c.Metrics()
			require.LessOrEqual(t, m.Size, tc.room, "immediately")
			fill()
			m = c.Metrics()
			require.Equal(t, tc.room/10*10, m.Size)
			require.LessOrEqual(t, m.Size+m.Charged, max(m.Capacity, m.Charged))
			require.Equal(t, tc.room >= 10, c.HasRoom(tc.room-m.Size) && tc.room > 0)
			checkShards(t, c)
		}
		require.Zero(t, c.Metrics().Charged)
		c.Close()
		m := c.Metrics()
		require.EqualValues(t, left, m.Evictions+m.Drops+m.Unkept)
	}
}

func TestTheBudgetHoldsWhileChargesChange(t *testing.T) {
	const capacity = 1 << 20
	c := newSharded[int](capacity, 4, nil)
	slots := make([]Slot[int], 500)
	var wg sync.WaitGroup
	for g := range 4 {
		rng := seedFor(t)
		wg.Go(func() {
			for range 3000 {
				if g == 0 {
					size := rng.Int64N(capacity / 2)
					c.Charge(size)
					c.Charge(-size)
					continue
				}
				if _, err := c.GetOrLoad(&slots[rng.IntN(len(slots))], func() (int, int64, error) { return 1, 1 + rng.Int64N(8000), nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m := c.Metrics()
	require.Zero(t, m.Charged)
	require.LessOrEqual(t, m.Size, int64(capacity))
	require.Equal(t, m.Size, c.used.Load())
	checkShards(t, c)
	c.Charge(capacity)
	require.Zero(t, c.Metrics().Count)
}
