package cache

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/stretchr/testify/require"
)

// statisticsRand returns the random numbers of a statistical test, the same on every run.
func statisticsRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Statistical(t), 0))
}

// seedFor returns new random numbers, for properties that always hold, and logs their seed.
func seedFor(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// put loads value with the given size into the slot.
func put[V any](t testing.TB, c *Cache[V], s *Slot[V], value V, size int64) *V {
	t.Helper()
	v := result.Of(c.GetOrLoad(s, func() (V, int64, error) { return value, size, nil }))(t)
	return v
}

// checkShards checks the invariants of a cache that is not in use at the moment.
func checkShards[V any](t testing.TB, c *Cache[V]) {
	t.Helper()
	var held int64
	for i := range c.shards {
		sh := &c.shards[i]
		for _, q := range []*queue[V]{&sh.probation, &sh.main} {
			var count, size int64
			var last *entry[V]
			for e := q.head; e != nil; last, e = e, e.next {
				require.Same(t, e, e.slot.p.Load(), "an entry in a queue is in its slot")
				require.Same(t, q, sh.queueOf(e))
				require.Equal(t, c.large != nil && c.large(&e.value), e.large)
				require.True(t, e.prev == last)
				require.Equal(t, i, c.homeOf(e.slot))
				count, size = count+1, size+e.size
			}
			require.True(t, q.tail == last)
			require.Equal(t, count, q.count)
			require.Equal(t, size, q.size)
			held += size
		}
		require.Empty(t, sh.flights)
	}
	m := c.Metrics()
	require.Equal(t, held, m.Size)
	require.Equal(t, held, c.used.Load(), "nothing stays reserved")
	require.LessOrEqual(t, m.Size, m.Capacity)
	require.Equal(t, m.Count, m.Inserts-m.Evictions-m.Drops)
}

func TestASlotIsOneWord(t *testing.T) {
	require.Equal(t, unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(Slot[[10]int]{}))
}

func TestAHitReturnsTheLoadedValue(t *testing.T) {
	c := New[string](10, nil)
	var s Slot[string]
	require.Nil(t, s.Get())
	require.Nil(t, s.Peek())
	v := put(t, c, &s, "a", 1)
	require.Equal(t, "a", *v)
	for range 5 { // through all states of the entry
		require.Same(t, v, s.Get())
		require.Same(t, v, s.Peek())
		require.Same(t, v, put(t, c, &s, "b", 1))
	}
	checkShards(t, c)
}

func TestPeekDoesNotCountAsAUse(t *testing.T) {
	c := New[int](1, nil)
	var s Slot[int]
	put(t, c, &s, 1, 1)
	for range 3 {
		s.Peek()
	}
	require.Zero(t, s.p.Load().state.Load())
	s.Get()
	require.EqualValues(t, 1, s.p.Load().state.Load())
}

func TestConcurrentMissesOfOneSlotLoadItOnce(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name     string
		capacity int64
		err      error
	}{
		{"all waiting goroutines get a kept value", 10, nil},
		{"all waiting goroutines get a value that is not kept", 0, nil},
		{"all waiting goroutines get an error", 10, boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New[int](tc.capacity, nil)
				var s Slot[int]
				release := make(chan struct{})
				loads := 0
				type result struct {
					v   *int
					err error
				}
				results := make(chan result, 8)
				load := func() (int, int64, error) {
					loads++ // only one goroutine gets here
					<-release
					return 7, 1, tc.err
				}
				for range cap(results) {
					go func() {
						v, err := c.GetOrLoad(&s, load)
						results <- result{v, err}
					}()
				}
				synctest.Wait()
				require.Equal(t, 1, loads)
				close(release)
				first := <-results
				require.Equal(t, tc.err, first.err)
				for range cap(results) - 1 {
					require.Equal(t, first, <-results)
				}
				if tc.err == nil {
					require.Equal(t, 7, *first.v)
				} else {
					require.Nil(t, first.v)
				}
				require.Equal(t, 1, loads)
				require.Equal(t, tc.capacity > 0 && tc.err == nil, s.Peek() != nil)
				checkShards(t, c)
			})
		})
	}
}

func TestAnErrorIsNotKept(t *testing.T) {
	boom := errors.New("boom")
	c := New[int](10, func(*int) { t.Error("nothing was loaded") })
	var s Slot[int]
	_, err := c.GetOrLoad(&s, func() (int, int64, error) { return 3, 1, boom })
	require.Equal(t, boom, err)
	require.Nil(t, s.Get())
	require.Equal(t, Metrics{Capacity: 10}, c.Metrics())
	require.Equal(t, 4, *put(t, c, &s, 4, 1))
}

func TestALoadThatPanicsReleasesWaitingGoroutines(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("load") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New[int](10, nil)
				var s Slot[int]
				release := make(chan struct{})
				panicked := make(chan any, 1)
				go func() {
					defer func() { panicked <- recover() }()
					_, _ = c.GetOrLoad(&s, func() (int, int64, error) { <-release; end(); return 0, 1, nil })
				}()
				synctest.Wait()
				waited := make(chan error, 1)
				go func() {
					_, err := c.GetOrLoad(&s, func() (int, int64, error) { return 0, 1, nil })
					waited <- err
				}()
				synctest.Wait()
				close(release)
				require.ErrorIs(t, <-waited, errLoadPanicked)
				require.Equal(t, name == "panic", <-panicked != nil, "the panic continues")
				require.Equal(t, 5, *put(t, c, &s, 5, 1), "the slot can be loaded again")
				checkShards(t, c)
			})
		})
	}
}

func TestASizeBelowOnePanics(t *testing.T) {
	c := New[int](10, nil)
	var s Slot[int]
	require.Panics(t, func() { put(t, c, &s, 1, 0) })
	require.Panics(t, func() { put(t, c, &s, 1, -5) })
	checkShards(t, c)
}

func TestALoadMayUseTheCacheForOtherSlots(t *testing.T) {
	c := New[int](10, nil)
	slots := make([]Slot[int], 2)
	v, err := c.GetOrLoad(&slots[0], func() (int, int64, error) {
		return *put(t, c, &slots[1], 20, 1) + 1, 1, nil
	})
	require.NoError(t, err)
	require.Equal(t, 21, *v)
	checkShards(t, c)
}

func TestValuesThatCannotBeKeptAreReturned(t *testing.T) {
	for _, tc := range []struct {
		name           string
		capacity, size int64
	}{
		{"capacity zero", 0, 1},
		{"capacity below zero", -5, 1},
		{"a value larger than the cache", 10, 11},
		{"a value larger than any cache", 10, 1<<63 - 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var left []int
			c := New(tc.capacity, func(v *int) { left = append(left, *v) })
			var s Slot[int]
			for i := range 3 {
				require.Equal(t, i, *put(t, c, &s, i, tc.size))
				require.Nil(t, s.Get())
			}
			require.Equal(t, []int{0, 1, 2}, left)
			require.Equal(t, Metrics{Capacity: max(0, tc.capacity), Unkept: 3}, c.Metrics())
			checkShards(t, c)
		})
	}
}

func TestACacheOfOneValueKeepsTheLast(t *testing.T) {
	c := New[int](1, nil)
	slots := make([]Slot[int], 3)
	for i := range 30 {
		s := &slots[i%3]
		put(t, c, s, i, 1)
		for range i % 5 {
			require.Equal(t, i, *s.Get())
		}
		require.EqualValues(t, 1, c.Metrics().Count)
	}
	checkShards(t, c)
}

func TestTheBudgetHoldsAtEveryStep(t *testing.T) {
	for _, tc := range []struct {
		name              string
		capacity, maxSize int64
		shards            int
	}{
		{"one shard", 1000, 50, 1},
		{"ten values of size 1", 10, 1, 1},
		{"four shards", 1000, 50, 4},
		{"values larger than a share", 1000, 1000, 8},
		{"some values larger than the cache", 1000, 1100, 8},
		{"shares of zero", 5, 3, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := seedFor(t)
			left := make(map[int]int)
			c := newSharded(tc.capacity, tc.shards, func(v *int) { left[*v]++ })
			slots := make([]Slot[int], 200)
			loads := 0
			for range 5000 {
				s := &slots[rng.IntN(len(slots))]
				if rng.IntN(20) == 0 {
					c.DropOne(s)
					*s = Slot[int]{} // a new owner at the same address
					continue
				}
				size := 1 + rng.Int64N(tc.maxSize)
				v := result.Of(c.GetOrLoad(s, func() (int, int64, error) { loads++; return loads, size, nil }))(t)
				if *v == loads && size <= tc.capacity {
					require.Same(t, v, s.Peek(), "values that fit are kept")
				}
				require.LessOrEqual(t, c.Metrics().Size, tc.capacity)
			}
			checkShards(t, c)
			m := c.Metrics()
			require.Equal(t, int64(loads), m.Inserts+m.Unkept)
			require.Equal(t, int64(len(left)), m.Evictions+m.Drops+m.Unkept)
			c.DropAll()
			require.Zero(t, c.Metrics().Size)
			require.Zero(t, c.Metrics().Count)
			require.Len(t, left, loads)
			for v, times := range left {
				require.Equal(t, 1, times, "value %d must leave once", v)
			}
		})
	}
}

func TestAFullCacheOfEqualValuesStaysFull(t *testing.T) {
	c := newSharded[int](64, 8, nil)
	slots := make([]Slot[int], 1000)
	for i := range slots {
		put(t, c, &slots[i], i, 1)
		require.EqualValues(t, min(i+1, 64), c.Metrics().Size)
	}
	checkShards(t, c)
}

func TestADroppedSlotStaysEmpty(t *testing.T) {
	var left []int
	c := New(10, func(v *int) { left = append(left, *v) })
	slots := make([]Slot[int], 3)
	v := put(t, c, &slots[0], 1, 2)
	put(t, c, &slots[1], 2, 2)
	c.Drop(slots[:])
	c.Drop(slots[:])
	require.Equal(t, []int{1, 2}, left)
	require.Equal(t, 1, *v, "a reader keeps its value")
	require.Equal(t, Metrics{Capacity: 10, Inserts: 2, Drops: 2}, c.Metrics())
	for i := range slots {
		require.Nil(t, slots[i].Get())
		require.Nil(t, slots[i].Peek())
		require.Equal(t, 3, *put(t, c, &slots[i], 3, 1), "a late reader gets its value")
		require.Nil(t, slots[i].Get())
	}
	require.Equal(t, []int{1, 2, 3, 3, 3}, left)
	checkShards(t, c)
}

func TestASlotDroppedDuringALoadStaysEmpty(t *testing.T) {
	for name, drop := range map[string]func(*Cache[int], *Slot[int]){
		"DropOne": func(c *Cache[int], s *Slot[int]) { c.DropOne(s) },
		"Close":   func(c *Cache[int], s *Slot[int]) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			left := 0
			c := New(10, func(*int) { left++ })
			var s Slot[int]
			v, err := c.GetOrLoad(&s, func() (int, int64, error) {
				drop(c, &s)
				require.Zero(t, left)
				return 1, 1, nil
			})
			require.NoError(t, err)
			require.Equal(t, 1, *v)
			require.Nil(t, s.Get())
			require.Equal(t, 1, left)
			require.Equal(t, Metrics{Capacity: 10, Unkept: 1}, c.Metrics())
			checkShards(t, c)
		})
	}
}

func TestDropAllLeavesTheSlotsUsable(t *testing.T) {
	left := 0
	c := newSharded(100, 4, func(*int) { left++ })
	slots := make([]Slot[int], 50)
	for range 3 {
		for i := range slots {
			put(t, c, &slots[i], i, 1)
		}
		c.DropAll()
		checkShards(t, c)
	}
	require.Equal(t, 150, left)
	require.Equal(t, Metrics{Capacity: 100, Inserts: 150, Drops: 150}, c.Metrics())
}

func TestAClosedCacheKeepsNothing(t *testing.T) {
	left := 0
	c := New(10, func(*int) { left++ })
	slots := make([]Slot[int], 2)
	put(t, c, &slots[0], 1, 1)
	c.Close()
	c.Close()
	require.Equal(t, 1, left)
	for i := range slots {
		require.Equal(t, 2, *put(t, c, &slots[i], 2, 1))
		require.Nil(t, slots[i].Get())
	}
	require.Equal(t, 3, left)
	checkShards(t, c)
}

func TestShardsFollowCapacityAndProcessors(t *testing.T) {
	for _, tc := range []struct {
		name       string
		capacity   int64
		processors int
		want       int
	}{
		{"nothing kept", 0, 8, 1},
		{"below zero", -1, 8, 1},
		{"values of size 1", 1000, 64, 1},
		{"just too small for two", 2<<20 - 1, 8, 1},
		{"just enough for two", 2 << 20, 8, 2},
		{"8 MiB", 8 << 20, 8, 8},
		{"64 MiB on two processors", 64 << 20, 2, 8},
		{"64 MiB on three processors", 64 << 20, 3, 8},
		{"16 GiB on 64 processors", 16 << 30, 64, 64},
		{"the largest capacity", 1<<63 - 1, 1, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, shardsFor(tc.capacity, tc.processors))
		})
	}
}

func TestNeighbouringSlotsSpreadOverTheShards(t *testing.T) {
	c := newSharded[int](1000, 8, nil)
	slots := make([]Slot[int], 8000)
	counts := make([]int, 8)
	for i := range slots {
		counts[c.homeOf(&slots[i])]++
	}
	for _, n := range counts {
		require.InDelta(t, 1000, n, 100)
	}
}
