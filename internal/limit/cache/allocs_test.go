//go:build !race

package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllocations(t *testing.T) {
	c := New[[]byte](1000, nil)
	slots := make([]Slot[[]byte], 10000)
	block, next := make([]byte, 10), 0
	load := func() ([]byte, int64, error) { return block, 10, nil }
	put(t, c, &slots[0], block, 10)
	require.Zero(t, testing.AllocsPerRun(100, func() { slots[0].Get() }), "a hit")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		size := int64(10) // a closure that captures, as that of a table reader
		_, _ = c.GetOrLoad(&slots[0], func() ([]byte, int64, error) { return block, size, nil })
	}), "a hit through GetOrLoad")
	require.LessOrEqual(t, testing.AllocsPerRun(5000, func() {
		next++
		_, _ = c.GetOrLoad(&slots[next], load)
	}), 1.0, "a miss: its entry")
}
