package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// touch uses a slot, which is a hit or a load of a value of size 1, and reports which.
func touch(c *Cache[int], s *Slot[int]) (hit bool) {
	hit = true
	_, _ = c.GetOrLoad(s, func() (int, int64, error) { hit = false; return 0, 1, nil })
	return hit
}

func countHeld[V any](slots []Slot[V]) (n int) {
	for i := range slots {
		if slots[i].Peek() != nil {
			n++
		}
	}
	return n
}

func TestUsedValuesOutliveUnusedOnes(t *testing.T) {
	c := New[int](80, nil)
	slots := make([]Slot[int], 70) // all go to main, which is being filled
	for i := range slots {
		touch(c, &slots[i])
	}
	for i := 0; i < len(slots); i += 2 {
		slots[i].Get()
	}
	// New values that are requested twice, so that they enter main.
	fresh := make([]Slot[int], 35)
	for range 2 {
		for i := range fresh {
			touch(c, &fresh[i])
		}
	}
	for i := range slots {
		if i%2 == 0 {
			require.NotNil(t, slots[i].Peek(), "slot %d was used", i)
		}
	}
	require.Less(t, countHeld(slots), 50, "the unused ones made room")
	checkShards(t, c)
}

func TestAHotSetSurvivesAScanOfTenTimesTheCache(t *testing.T) {
	const capacity = 2000
	for _, tc := range []struct {
		name               string
		hot, touchesABlock int
		shards             int
	}{
		{"a scan that reads each block once", capacity * 8 / 10, 1, 1},
		{"a scan that reads each block thirty times", capacity * 8 / 10, 30, 1},
		{"in eight shards", capacity * 8 / 10, 30, 8},
		{"a small hot set", capacity / 10, 30, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := statisticsRand(t)
			c := newSharded[int](capacity, tc.shards, nil)
			hot, scan := make([]Slot[int], tc.hot), make([]Slot[int], 10*capacity)
			for range 5 * capacity {
				touch(c, &hot[rng.IntN(len(hot))])
			}
			for i := range scan {
				for range tc.touchesABlock {
					touch(c, &scan[i])
				}
				touch(c, &hot[rng.IntN(len(hot))])
			}
			require.Greater(t, countHeld(hot), len(hot)*95/100)
			checkShards(t, c)
		})
	}
}

func TestAHotSetWarmsUpAfterAScanFilledTheCache(t *testing.T) {
	const capacity = 2000
	rng := statisticsRand(t)
	c := New[int](capacity, nil)
	scan, hot := make([]Slot[int], 2*capacity), make([]Slot[int], capacity*8/10)
	for i := range scan {
		for range 30 {
			touch(c, &scan[i])
		}
	}
	for range 10 * capacity {
		touch(c, &hot[rng.IntN(len(hot))])
	}
	require.Greater(t, countHeld(hot), len(hot)*95/100)
	checkShards(t, c)
}

func TestASlotIsRememberedForAboutAsManyEvictionsAsEntries(t *testing.T) {
	const capacity = 2000
	for _, tc := range []struct {
		name  string
		after int
		want  bool
	}{
		{"remembered immediately", 1, true},
		{"remembered after half", capacity / 2, true},
		{"forgotten after three halves", capacity * 3 / 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New[int](capacity, nil)
			slots := make([]Slot[int], 4*capacity)
			next := 0
			pass := func(n int) {
				for range n {
					touch(c, &slots[next])
					next++
				}
			}
			pass(capacity)
			watched := next
			pass(1)
			for slots[watched].Peek() != nil {
				pass(1)
			}
			pass(tc.after)
			touch(c, &slots[watched])
			require.Equal(t, tc.want, slots[watched].p.Load().inMain)
			checkShards(t, c)
		})
	}
}

func TestOddSizesDoNotOpenMainToAScan(t *testing.T) {
	// Evictions for values of different sizes leave gaps. A value that fits in a gap must
	// not be treated as if the cache were still being filled.
	const capacity = 2000 * 4096
	rng := statisticsRand(t)
	c := newSharded[int](capacity, 1, nil)
	slots := make([]Slot[int], 20000)
	for i := range slots {
		put(t, c, &slots[i], 0, 3500+rng.Int64N(1200))
		if i > 2100 {
			require.False(t, slots[i].p.Load().inMain)
		}
	}
	checkShards(t, c)
}
