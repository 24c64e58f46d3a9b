package cache

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func anyValue(*int) bool { return true }

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
		require.True(t, c.Evict(false, anyValue, func(v *int) { taken = append(taken, *v) }))
	}
	require.Equal(t, []int{1, 3, 4}, taken)
	require.Equal(t, taken, left)
	require.EqualValues(t, 2, c.Count())
	checkShards(t, c)
	c.DropAll()
	require.False(t, c.Evict(false, anyValue, func(*int) { t.Error("there is no value") }))
}

func TestEvictPassesOverValuesThatMayNotLeave(t *testing.T) {
	c := New(100, func(*int) {})
	slots := make([]Slot[int], 20)
	for i := range slots {
		put(t, c, &slots[i], i, 1)
	}
	even := func(v *int) bool { return *v%2 == 0 }
	require.True(t, c.HasMore(9, even))
	require.False(t, c.HasMore(10, even))
	var taken []int
	for c.Evict(false, even, func(v *int) { taken = append(taken, *v) }) {
		checkShards(t, c)
	}
	require.Len(t, taken, 10)
	require.EqualValues(t, 10, c.Count())
	for i := range slots {
		require.Equal(t, i%2 == 1, slots[i].Get() != nil, "%d", i)
	}
	require.False(t, c.HasMore(0, even))
	require.True(t, c.Evict(false, anyValue, func(*int) {}), "those that may not leave now may later")
}

func TestCloseWaitsForValuesThatLeaveInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := NewInPool(NewPool(100, 10, true), 100, nil, func(*int) { <-release })
		var s Slot[int]
		put(t, c, &s, 1, 1)
		require.True(t, c.Evict(true, anyValue, func(*int) {}))
		closed := false
		go func() { c.Close(); closed = true }()
		synctest.Wait()
		require.False(t, closed)
		close(release)
		synctest.Wait()
		require.True(t, closed)
	})
}
