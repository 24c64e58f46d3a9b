package cache

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// usePassing uses a slot like an owner that calls Pass in its loads.
func usePassing(t testing.TB, c *Cache[int], s *Slot[int]) (hit, passed bool) {
	hit = true
	v, err := c.GetOrLoad(s, func() (int, int64, error) {
		hit = false
		if passed = c.Pass(s, 1); passed {
			return 0, Passed, nil
		}
		return 1, 1, nil
	})
	require.NoError(t, err)
	require.Equal(t, passed, v == nil)
	return hit, passed
}

// passing returns a full cache in whose probation no value was used again, so that Pass returns true for new values.
func passing(t testing.TB, capacity int64) *Cache[int] {
	c := New[int](capacity, nil)
	for range 4 * capacity {
		usePassing(t, c, new(Slot[int]))
	}
	require.Less(t, c.shards[0].useful, int64(usefulEnough))
	return c
}

func TestACacheWithRoomKeepsEverything(t *testing.T) {
	c := New[int](100, nil)
	for range 100 {
		_, passed := usePassing(t, c, new(Slot[int]))
		require.False(t, passed)
	}
	require.EqualValues(t, 100, c.Metrics().Count)
}

func TestValuesNotUsedAgainAreNotKept(t *testing.T) {
	c := passing(t, 1000)
	before := c.Metrics()
	slots := make([]Slot[int], 800)
	for i := range slots {
		usePassing(t, c, &slots[i])
	}
	m := c.Metrics()
	require.EqualValues(t, len(slots)/passSample, m.Inserts-before.Inserts, "samples")
	require.EqualValues(t, len(slots)-len(slots)/passSample, m.Passed-before.Passed)
	require.Equal(t, int(m.Inserts-before.Inserts), countHeld(slots))
	require.Zero(t, m.Unkept)
	checkShards(t, c)
}

func TestAPassedValueIsKeptWhenRequestedAgain(t *testing.T) {
	for _, tc := range []struct {
		name         string
		between      int // other values that are requested in between
		kept, inMain bool
	}{
		{"immediately, into probation", 0, true, false},
		{"soon, into main", 10, true, true},
		{"after a while, into main", 400, true, true},
		{"much later, forgotten", 3000, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := passing(t, 1000)
			const tries = 40
			kept := 0
			for range tries {
				var s Slot[int]
				if _, passed := usePassing(t, c, &s); !passed {
					continue // a sample
				}
				for range tc.between {
					usePassing(t, c, new(Slot[int]))
				}
				if hit, passed := usePassing(t, c, &s); !passed {
					require.False(t, hit)
					kept++
					if tc.kept {
						require.Equal(t, tc.inMain, s.p.Load().inMain)
					}
				}
			}
			if tc.kept {
				require.Greater(t, kept, tries*3/4)
			} else {
				require.Less(t, kept, tries/2, "only samples are kept")
			}
			checkShards(t, c)
		})
	}
}

func TestUsesInProbationAdmitNewValues(t *testing.T) {
	c := passing(t, 1000)
	slots := make([]Slot[int], 4000)
	loads := 0
	for i := range slots {
		for range 30 { // like lookups in key order
			if hit, _ := usePassing(t, c, &slots[i]); !hit && i >= len(slots)/2 {
				loads++
			}
		}
	}
	require.Equal(t, len(slots)/2, loads, "each is loaded once")
	checkShards(t, c)
}

// If values are used uniformly, cached values stay and others are not kept.
func TestUniformlyUsedValuesDoNotDisplaceEachOther(t *testing.T) {
	c := passing(t, 1000)
	slots := make([]Slot[int], 1100)
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) (hits int) {
		for range n {
			if hit, _ := usePassing(t, c, &slots[rng.IntN(len(slots))]); hit {
				hits++
			}
		}
		return hits
	}
	draw(100_000)
	before := c.Metrics().Inserts
	hits := draw(100_000)
	require.InDelta(t, 100_000*1000/1100, hits, 2_000)
	require.Less(t, c.Metrics().Inserts-before, int64(500), "of 9,000 misses")
	checkShards(t, c)
}

// Values that are no longer used are soon replaced by values that are.
func TestAWorkingSetIsReplacedByAnother(t *testing.T) {
	c := passing(t, 1000)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		slots := make([]Slot[int], 800)
		for range 20 * len(slots) {
			usePassing(t, c, &slots[rng.IntN(len(slots))])
		}
		require.Greater(t, countHeld(slots), 790)
	}
	checkShards(t, c)
}

func TestAValueThatOthersWaitForIsKept(t *testing.T) {
	c := passing(t, 100)
	slots := make([]Slot[int], 2*passSample)
	for i := range slots {
		waiting := make(chan *int)
		v, err := c.GetOrLoad(&slots[i], func() (int, int64, error) {
			sh := &c.shards[0]
			go func() {
				v, _ := c.GetOrLoad(&slots[i], func() (int, int64, error) { return 0, 1, errors.New("loaded twice") })
				waiting <- v
			}()
			for begun := false; !begun; {
				sh.mu.Lock()
				begun = sh.flights[&slots[i]].done != nil
				sh.mu.Unlock()
			}
			require.False(t, c.Pass(&slots[i], 1))
			return 7, 1, nil
		})
		require.NoError(t, err)
		require.Equal(t, 7, *v)
		require.Same(t, v, <-waiting)
	}
	checkShards(t, c)
}

func TestPassIsTrueForValuesThatCannotBeKept(t *testing.T) {
	for name, prepare := range map[string]func(c *Cache[int], s *Slot[int]){
		"dropped": func(c *Cache[int], s *Slot[int]) { c.DropOne(s) },
		"closed":  func(c *Cache[int], s *Slot[int]) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := New[int](10, nil)
			var s Slot[int]
			prepare(c, &s)
			_, passed := usePassing(t, c, &s)
			require.True(t, passed)
			require.Equal(t, name == "dropped", s.closed(), "the mark stays")
			require.Equal(t, Metrics{Capacity: 10, Passed: 1}, c.Metrics())
		})
	}
	t.Run("larger than the cache", func(t *testing.T) {
		c := New[int](10, nil)
		var s Slot[int]
		_, err := c.GetOrLoad(&s, func() (int, int64, error) {
			require.True(t, c.Pass(&s, 11))
			return 0, Passed, nil
		})
		require.NoError(t, err)
	})
}

func TestALoadThatFailsAfterPassIsDone(t *testing.T) {
	c := passing(t, 100)
	failed := errors.New("failed")
	for range 2 * passSample {
		var s Slot[int]
		_, err := c.GetOrLoad(&s, func() (int, int64, error) {
			if c.Pass(&s, 1) {
				return 0, Passed, failed
			}
			return 0, 1, failed
		})
		require.ErrorIs(t, err, failed)
		checkShards(t, c)
	}
}
