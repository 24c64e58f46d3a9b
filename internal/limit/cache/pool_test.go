package cache

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharing is a cache in a Pool, with slots whose values are their indexes.
type sharing struct {
	*Cache[int]
	slots []Slot[int]
}

func join(p *Pool, slots int) *sharing {
	return &sharing{NewInPool[int](p, p.capacity, nil, nil), make([]Slot[int], slots)}
}

// use gets slots from, inclusive, to, exclusive, and returns how many were loaded.
func (s *sharing) use(t *testing.T, from, to int) (misses int) {
	t.Helper()
	for i := from; i < to; i++ {
		v, err := s.GetOrLoad(&s.slots[i], func() (int, int64, error) { misses++; return i, 1, nil })
		require.NoError(t, err)
		require.Equal(t, i, *v)
	}
	return misses
}

func TestMemoryMovesToTheCacheThatIsUsed(t *testing.T) {
	p := NewPool(1000, 100, false)
	idle, busy := join(p, 2000), join(p, 2000)
	idle.use(t, 0, 1000)
	require.EqualValues(t, 1000, idle.usage(), "one cache may have all")
	for range 60 {
		busy.use(t, 0, 850)
		require.LessOrEqual(t, p.used.Load(), int64(1000))
	}
	require.GreaterOrEqual(t, idle.usage(), int64(100), "the floor")
	require.Zero(t, busy.use(t, 0, 850), "all that is used has found room")
	require.Equal(t, PoolMetrics{Capacity: 1000, Used: idle.usage() + busy.usage(), Members: 2, Evictions: p.evictions.Load()}, p.Metrics())
	require.Greater(t, p.evictions.Load(), uint64(700))
}

func TestABusyCacheLeavesOthersTheirFloor(t *testing.T) {
	p := NewPool(1000, 100, false)
	idle, busy := join(p, 1000), join(p, 2000)
	idle.use(t, 0, 1000)
	for n := 800; n < 1000; n += 20 { // all of this would fit without the other
		for range 40 {
			busy.use(t, 0, n)
			require.GreaterOrEqual(t, idle.usage(), int64(100))
		}
	}
	require.Less(t, idle.usage(), int64(200), "all else moved")
}

func TestTheFloorIsAnEqualShareAtMost(t *testing.T) {
	p := NewPool(100, 1000, false)
	a, b := join(p, 200), join(p, 200)
	a.use(t, 0, 100)
	b.use(t, 0, 50)
	require.Zero(t, b.use(t, 0, 50))
	require.EqualValues(t, 50, a.usage())
}

func TestAScanDisplacesNothingOfOthersThatIsUsed(t *testing.T) {
	p := NewPool(1000, 50, false)
	used, scanned := join(p, 500), join(p, 100_000)
	used.use(t, 0, 500)
	scanned.use(t, 0, 500)
	for i := 500; i < 100_000; i += 1000 {
		used.use(t, 0, 500)
		scanned.use(t, i, min(i+1000, 100_000))
	}
	require.Less(t, used.use(t, 0, 500), 50)
}

func TestACacheThatClosesReturnsAllItHad(t *testing.T) {
	p := NewPool(1000, 100, false)
	a, b := join(p, 1000), join(p, 1000)
	a.use(t, 0, 300)
	a.Charge(500)
	b.use(t, 0, 150)
	a.Close()
	a.Close()
	require.EqualValues(t, 150, p.used.Load(), "a charge ends with its cache, even if its owner forgets it")
	a.Charge(-500)
	a.use(t, 0, 100)
	require.EqualValues(t, 150, p.used.Load())
	require.Equal(t, 1, p.Metrics().Members)
	b.use(t, 0, 1000)
	require.EqualValues(t, 1000, b.usage())
}

func TestChargesEvictOthersAboveTheirFloors(t *testing.T) {
	p := NewPool(1000, 200, false)
	a, b := join(p, 1000), join(p, 1000)
	b.use(t, 0, 1000)
	a.Charge(700)
	require.LessOrEqual(t, p.used.Load(), int64(1000))
	a.Charge(700)
	require.EqualValues(t, 200, b.usage(), "charges may exceed the capacity; floors hold")
	require.False(t, a.HasRoom(1))
	a.Charge(-1400)
	require.EqualValues(t, 200, p.used.Load())
	require.True(t, a.HasRoom(800))
}

func TestALimitBelowThePoolHolds(t *testing.T) {
	p := NewPool(1000, 100, false)
	c := &sharing{NewInPool[int](p, 50, nil, nil), make([]Slot[int], 200)}
	c.use(t, 0, 200)
	require.EqualValues(t, 50, c.usage())
	c.SetCapacity(20)
	require.EqualValues(t, 20, p.used.Load())
	none := &sharing{NewInPool[int](p, -1, nil, nil), make([]Slot[int], 10)}
	require.Equal(t, 10, none.use(t, 0, 10))
	require.EqualValues(t, 20, p.used.Load())
	huge := make([]Slot[int], 1)
	_, err := c.GetOrLoad(&huge[0], func() (int, int64, error) { return 1, 2000, nil })
	require.NoError(t, err)
	require.EqualValues(t, 20, p.used.Load(), "a value above the Pool's capacity evicts nothing")
}

// A cache whose owner blocks when a value leaves must not block the others.
func TestAnOwnerThatHangsDoesNotDelayOthers(t *testing.T) {
	p := NewPool(100, 10, true)
	release := make(chan struct{})
	var left atomic.Int32
	hangs := &sharing{NewInPool(p, 100, nil, func(*int) { <-release; left.Add(1) }), make([]Slot[int], 100)}
	hangs.use(t, 0, 100)
	other := join(p, 100)
	other.use(t, 0, 45)
	had := other.usage()
	require.Greater(t, had, int64(20))
	closed := make(chan struct{})
	go func() { hangs.Close(); close(closed) }()
	close(release)
	<-closed
	require.EqualValues(t, 100, left.Load(), "Close waits for those that leave in the background")
	require.Equal(t, had, p.used.Load())
}

func TestCachesOfAPoolAgreeWithItUnderLoad(t *testing.T) {
	p := NewPool(4<<20, 256<<10, true)
	var loaded, evicted atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 3 {
				c := NewInPool(p, 2<<20, func(v *int) bool { return *v%2 == 0 }, func(*int) { evicted.Add(1) })
				useRandomly(t, c, rnd, &loaded)
				c.Close()
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.used.Load())
	require.Equal(t, loaded.Load(), evicted.Load())
	require.Zero(t, p.Metrics().Members)
}

// useRandomly loads, replaces and drops values, and counts those that c gets.
func useRandomly(t *testing.T, c *Cache[int], rnd *rand.Rand, loaded *atomic.Int64) {
	slots := make([]Slot[int], 500)
	for range 500 {
		s := &slots[rnd.IntN(len(slots))]
		_, _ = c.GetOrLoad(s, func() (int, int64, error) {
			if c.Pass(s, 10<<10) {
				return 0, Passed, nil
			}
			loaded.Add(1)
			return rnd.IntN(100), 1 + rnd.Int64N(20<<10), nil
		})
		if used := c.pool.used.Load(); used < 0 || used > c.pool.capacity {
			t.Errorf("%d are used, of %d", used, c.pool.capacity)
		}
		switch v := s.Get(); {
		case rnd.IntN(50) == 0:
			c.DropOne(s)
		case v != nil && rnd.IntN(20) == 0:
			loaded.Add(1)
			c.Replace(s, v, 1, 1+rnd.Int64N(20<<10))
		}
	}
}
