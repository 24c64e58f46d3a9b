package cache

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestEvictTakesTheValuesThatWereNotUsed(t *testing.T) {
	var left []int
	c := New(100, func(v *int) { left = append(left, *v) })
	slots := make([]Slot[int], 5)
	for i := range slots {
		put(t, c, &slots[i], i, 1)
	}
	slots[0].Get()
	slots[2].Get()
	var taken []int
	for range 3 {
		require.True(t, c.Evict(false, func(v *int) { taken = append(taken, *v) }))
	}
	require.Equal(t, []int{1, 3, 4}, taken)
	require.Equal(t, taken, left)
	require.EqualValues(t, 2, c.Count())
	checkShards(t, c)
	c.DropAll()
	require.False(t, c.Evict(false, func(*int) { t.Error("there is no value") }))
}

func TestCloseWaitsForValuesThatLeaveInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := NewInPool(NewPool(100, 10, true), 100, nil, func(*int) { <-release })
		var s Slot[int]
		put(t, c, &s, 1, 1)
		require.True(t, c.Evict(true, func(*int) {}))
		closed := false
		go func() { c.Close(); closed = true }()
		synctest.Wait()
		require.False(t, closed)
		close(release)
		synctest.Wait()
		require.True(t, closed)
	})
}
