package cache

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tracked is a value that knows how often it left the cache.
type tracked struct {
	slot  int
	left  *atomic.Int32
	check int // slot + 1, for readers
}

// TestEveryValueLeavesOnceUnderLoad lets many goroutines miss, hit, drop and fail on
// few slots at once, and counts afterwards.
//
// False alarms: a value is replaced in a quarter of the steps that find one, and with room
// for one value of 60 slots that is one step in 240 of 32,000; none is, once in 10^57 runs.
func TestEveryValueLeavesOnceUnderLoad(t *testing.T) {
	for _, tc := range []struct {
		name            string
		capacity, sizes int64
		shards          int
	}{
		{"room for a third", 20, 1, 1},
		{"one value at a time", 1, 1, 1},
		{"nothing kept", 0, 1, 1},
		{"four shards that borrow", 40, 20, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const goroutines, rounds = 8, 4000
			seed := seedFor(t).Uint64()
			boom := errors.New("boom")
			c := newSharded(tc.capacity, tc.shards, func(v *tracked) { v.left.Add(1) })
			// Slots that die are replaced, as those of a table by those of another.
			var slots [60]atomic.Pointer[Slot[tracked]]
			for i := range slots {
				slots[i].Store(new(Slot[tracked]))
			}
			made := make([][]*atomic.Int32, goroutines)
			var loaded, replaced atomic.Int64
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(g)))
					for range rounds {
						i := rng.IntN(len(slots))
						s := slots[i].Load()
						switch op := rng.IntN(100); {
						case op == 0:
							slots[i].Store(new(Slot[tracked]))
							c.DropOne(s)
							if s.Get() != nil {
								t.Error("a dropped slot has a value")
							}
							continue
						case op == 1 && rng.IntN(20) == 0:
							c.DropAll()
							continue
						case op == 2:
							if m := c.Metrics(); m.Size > m.Capacity || m.Count != m.Inserts-m.Evictions-m.Drops {
								t.Errorf("out of budget or balance: %+v", m)
							}
							continue
						}
						if v := s.Peek(); v != nil && rng.IntN(4) == 0 {
							left := new(atomic.Int32)
							made[g] = append(made[g], left)
							replaced.Add(1)
							c.Replace(s, v, tracked{i, left, i + 1}, 1+rng.Int64N(tc.sizes))
							continue
						}
						v, err := c.GetOrLoad(s, func() (tracked, int64, error) {
							if rng.IntN(10) == 0 {
								return tracked{}, 0, boom
							}
							left := new(atomic.Int32)
							made[g] = append(made[g], left)
							loaded.Add(1)
							return tracked{i, left, i + 1}, 1 + rng.Int64N(tc.sizes), nil
						})
						if err == nil && (v.slot != i || v.check != i+1) {
							t.Errorf("slot %d gave the value of slot %d", i, v.slot)
						} else if err != nil && err != boom {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			checkShards(t, c)
			m := c.Metrics()
			require.Equal(t, loaded.Load(), m.Inserts+m.Unkept)
			require.Equal(t, tc.capacity > 0, replaced.Load() > 0)
			c.DropAll()
			checkShards(t, c)
			require.Zero(t, c.Metrics().Size)
			for _, lefts := range made {
				for _, left := range lefts {
					require.EqualValues(t, 1, left.Load())
				}
			}
		})
	}
}

// TestCloseLetsNothingBackIn closes the cache while others load.
func TestCloseLetsNothingBackIn(t *testing.T) {
	for range 50 {
		var alive atomic.Int64
		c := newSharded(30, 2, func(*int) { alive.Add(-1) })
		slots := make([]Slot[int], 60)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range slots {
					_, _ = c.GetOrLoad(&slots[(i*7+g)%len(slots)], func() (int, int64, error) {
						alive.Add(1)
						return 0, 1, nil
					})
					if g == 0 && i == 20 {
						c.Close()
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, alive.Load())
		checkShards(t, c)
		require.Zero(t, c.Metrics().Count)
	}
}
