package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACacheIsBusyIfItsHandMeetsValuesUsedManyTimes(t *testing.T) {
	c := newSharded[int](100, 1, nil)
	slots := make([]Slot[int], 1)
	require.False(t, c.Busy(&slots[0]), "an empty cache is not busy")
	sh := &c.shards[0]
	meet := func(hits uint32) {
		for range 10 * heatWeight {
			sh.warmLocked(hits)
		}
	}
	meet(busyUses + 1)
	require.True(t, c.Busy(&slots[0]))
	meet(busyUses - 1)
	require.False(t, c.Busy(&slots[0]))
}
