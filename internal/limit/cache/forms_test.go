package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// form is a value in one of its two forms.
type form struct {
	id    int
	large bool
}

// newForms returns a cache, and the number of values that have left it.
func newForms(capacity int64) (c *Cache[form], left *int) {
	left = new(int)
	return NewWithForms(capacity, func(f *form) bool { return f.large }, func(*form) { *left++ }), left
}

// twoForms uses a slot like an owner of values in two forms of the given sizes.
func twoForms(c *Cache[form], s *Slot[form], small, large int64) (missed bool, v *form) {
	v, _ = c.GetOrLoad(s, func() (form, int64, error) {
		missed = true
		if c.HasRoom(large) {
			return form{large: true}, large, nil
		}
		return form{}, small, nil
	})
	if !missed && !v.large && c.Hot(s) {
		c.Replace(s, v, form{large: true}, large)
	}
	return missed, v
}

func TestReplaceKeepsPlaceHitsAndBudget(t *testing.T) {
	for _, tc := range []struct {
		name            string
		at              int // the slot's index, in the order in which they were filled
		size            int64
		replaced        bool
		evicted, demand int64
	}{
		{"smaller", 1, 4, true, 0, 24},
		{"the same size", 0, 10, true, 0, 30},
		{"larger, with room", 2, 20, true, 0, 40},
		{"larger, others are evicted", 2, 21, true, 1, 31},
		{"as large as the cache", 2, 40, true, 2, 40},
		{"larger than the cache", 2, 51, false, 0, 30},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, left := newForms(40)
			slots := make([]Slot[form], 3)
			for i := range slots {
				put(t, c, &slots[i], form{id: i}, 10)
			}
			s := &slots[tc.at]
			old := s.Get()
			inMain, hits := s.p.Load().inMain, s.p.Load().state.Load()
			require.EqualValues(t, 1, hits)
			require.Equal(t, tc.replaced, c.Replace(s, old, form{id: 100, large: true}, tc.size))
			checkShards(t, c)
			m := c.Metrics()
			require.Equal(t, tc.demand, m.Size)
			require.Equal(t, tc.evicted, m.Evictions)
			require.EqualValues(t, tc.evicted+1, *left, "the evicted values, and one of the two forms")
			if tc.replaced {
				require.Equal(t, 100, s.Peek().id)
				require.Equal(t, inMain, s.p.Load().inMain)
			} else {
				require.Same(t, old, s.Peek())
			}
			require.Equal(t, tc.at, old.id, "the old form stays valid")
			c.DropAll()
			require.EqualValues(t, 4, *left, "each value once")
		})
	}
}

func TestReplacingARemovedValueDoesNothing(t *testing.T) {
	for name, lose := range map[string]func(c *Cache[form], s *Slot[form]){
		"dropped": func(c *Cache[form], s *Slot[form]) { c.DropOne(s) },
		"evicted": func(c *Cache[form], s *Slot[form]) { c.DropAll() },
		"closed":  func(c *Cache[form], s *Slot[form]) { c.Close() },
		"replaced": func(c *Cache[form], s *Slot[form]) {
			c.Replace(s, s.Peek(), form{id: 2}, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, left := newForms(10)
			var s Slot[form]
			old := put(t, c, &s, form{id: 1}, 2)
			lose(c, &s)
			held, before := c.Metrics().Size, *left
			require.False(t, c.Replace(&s, old, form{id: 3}, 5))
			require.Equal(t, before+1, *left)
			require.Equal(t, held, c.Metrics().Size)
			checkShards(t, c)
		})
	}
}

func TestHotRequiresManyHitsInATurnOfTheHand(t *testing.T) {
	c := New[int](100, nil)
	var s Slot[int]
	require.False(t, c.Hot(&s))
	put(t, c, &s, 1, 1)
	for range 7 {
		s.Get()
		require.False(t, c.Hot(&s))
	}
	s.Get()
	require.True(t, c.Hot(&s))
	require.NotNil(t, s.Get(), "it stays hot")
	require.True(t, c.Hot(&s))

	var cold Slot[int] // the victim, once the hand has passed s
	put(t, c, &cold, 2, 1)
	require.True(t, c.evictAbove(&c.shards[0], 0))
	require.Nil(t, cold.Peek())
	require.False(t, c.Hot(&s))
	for range 6 {
		require.False(t, c.Hot(&s))
		s.Get()
	}
	require.True(t, c.Hot(&s))
}

func TestLargeFormsMustBeUsedMoreToStay(t *testing.T) {
	for _, tc := range []struct {
		hits  int
		large bool
		stays bool
	}{
		{hits: 3, large: false, stays: true},
		{hits: 3, large: true, stays: false},
		{hits: 4, large: true, stays: true},
	} {
		c, _ := newForms(100)
		var s Slot[form]
		put(t, c, &s, form{large: tc.large}, 10)
		for range tc.hits {
			s.Get()
		}
		var other Slot[form]
		put(t, c, &other, form{}, 10)
		require.True(t, c.evictAbove(&c.shards[0], 0))
		require.Equal(t, tc.stays, s.Peek() != nil, "%+v", tc)
		require.Equal(t, tc.stays, other.Peek() == nil, "%+v", tc)
		if !tc.stays {
			for c.HasRoom(1) { // otherwise all values would go to main
				put(t, c, new(Slot[form]), form{}, 10)
			}
			put(t, c, &s, form{}, 10)
			require.True(t, s.p.Load().inMain, "it returns as a known value")
		}
		checkShards(t, c)
	}
}

// TestACacheOfTwoFormsPrefersLargeOnesThatFit uses slots uniformly. If all large forms fit,
// they are kept; otherwise nearly all values are kept in small form.
func TestACacheOfTwoFormsPrefersLargeOnesThatFit(t *testing.T) {
	const n, small, large = 2000, 5, 10
	for _, tc := range []struct {
		name               string
		capacity           int64
		leastHeld          int
		mostLarge, minimum int
	}{
		{"room for all large", n * large, n, n, n},
		{"room for half of them", n * large / 2, n * 9 / 10, n / 10, 0},
		{"room for a tenth", n * large / 10, n / 6, n / 20, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := statisticsRand(t)
			c, _ := newForms(tc.capacity)
			slots := make([]Slot[form], n)
			for range 60 * n {
				twoForms(c, &slots[rng.IntN(n)], small, large)
			}
			heldLarge := 0
			for i := range slots {
				if v := slots[i].Peek(); v != nil && v.large {
					heldLarge++
				}
			}
			require.GreaterOrEqual(t, countHeld(slots), tc.leastHeld)
			require.LessOrEqual(t, heldLarge, tc.mostLarge)
			require.GreaterOrEqual(t, heldLarge, tc.minimum)
			checkShards(t, c)
		})
	}
}

func TestHotValuesAreKeptInLargeForm(t *testing.T) {
	const n, hot, small, large = 2000, 100, 5, 10
	rng := statisticsRand(t)
	c, _ := newForms(n * small / 2)
	slots := make([]Slot[form], n)
	for range 100 * n {
		s := &slots[rng.IntN(n)]
		if rng.IntN(2) == 0 {
			s = &slots[rng.IntN(hot)]
		}
		twoForms(c, s, small, large)
	}
	heldLarge := 0
	for i := range slots[:hot] {
		if v := slots[i].Peek(); v != nil && v.large {
			heldLarge++
		}
	}
	require.Greater(t, heldLarge, hot*9/10)
	checkShards(t, c)
}
