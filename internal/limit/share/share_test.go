package share

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/memtable"
)

func newResources(stores int) *Resources {
	return New(Options{MaxStores: stores, CacheBytes: 1000, MaxOpenFiles: 40, MemtableSize: 1600, MaxMerges: 2})
}

func mustJoin(t *testing.T, r *Resources) *Store {
	t.Helper()
	s := result.Of(r.Join())(t)
	return s
}

func TestJoinAndLeave(t *testing.T) {
	r := newResources(2)
	a, b := mustJoin(t, r), mustJoin(t, r)
	_, err := r.Join()
	require.EqualError(t, err, "sievedb: Options.Resources: 2 stores are open with these Resources, "+
		"as many as ResourcesOptions.MaxStores allows; close one, or raise it")
	blocks := cache.NewInPool[int](a.Blocks(), 1000, nil, nil)
	blocks.Charge(300)
	a.Memory().Take(100, 10, true)
	require.True(t, a.Slots().Want(Ordinary))
	a.Slots().Use()
	m := r.Metrics()
	require.Equal(t, 2, m.Stores)
	require.EqualValues(t, 300, m.Cache.Used)
	require.EqualValues(t, 200, m.Memtables.Used)
	require.Equal(t, 1, m.Compactions.Used)
	blocks.Close()
	a.Leave()
	a.Leave()
	m = r.Metrics()
	require.Equal(t, 1, m.Stores)
	require.Zero(t, m.Cache.Used+m.Memtables.Used+int64(m.Compactions.Used)+m.OpenFiles.Used)
	require.EqualValues(t, 1000, m.Cache.Limit)
	require.EqualValues(t, 40, m.OpenFiles.Limit)
	mustJoin(t, r)
	require.NotNil(t, b.Tables())
}

func TestAStoreThatSharesNothing(t *testing.T) {
	s := result.Of((*Resources)(nil).Join())(t)
	require.Nil(t, s)
	require.Nil(t, s.Blocks())
	require.Nil(t, s.Tables())
	require.True(t, s.Memory().Room(1<<30))
	g := s.Memory().Take(100, 10, false)
	require.Equal(t, 100, g.Size(100))
	require.True(t, g.Small())
	require.False(t, g.Overdraft())
	g.Retire()
	g.Release()
	s.Memory().Flushed(0)
	require.True(t, s.Slots().Want(Stalled))
	s.Slots().Use()
	s.Slots().Free()
	s.Slots().Forgo()
	require.Nil(t, s.Slots().Signal())
	s.Leave()
}

// clocked returns resources for four stores, 100 bytes for each small memtable and 800 bytes in common, and a clock.
func clocked() (*Resources, *time.Time) {
	r, now := newResources(4), time.Unix(1000, 0)
	r.memory.clock = func() time.Time { return now }
	return r, &now
}

func signalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestMemoryIsGrantedFromTheCommonPart(t *testing.T) {
	r, _ := clocked()
	a := mustJoin(t, r).Memory()
	first := a.Take(1000, 10, true)
	require.Equal(t, 100, first.Size(0))
	require.True(t, first.Small())
	var large []*Grant
	for range 4 {
		g := a.Take(1000, 10, false)
		require.Equal(t, 200, g.Size(0), "a quarter of the common part")
		require.False(t, g.Small())
		large = append(large, g)
	}
	reduced := a.Take(1000, 10, false)
	require.Equal(t, 100, reduced.Size(0))
	require.True(t, reduced.Small())
	require.False(t, a.Room(10))
	require.True(t, a.Room(101), "a wait would not help")
	large[0].Release()
	large[0].Release()
	require.Equal(t, 150, a.Take(150, 10, false).Size(0), "what it wants")
	m := r.Metrics().Memtables
	require.EqualValues(t, 2*100+3*200+150, m.Used)
	require.EqualValues(t, 1, m.Small)
	require.Zero(t, m.Overdrawn)
}

func TestSmallMemtablesAreAlwaysFree(t *testing.T) {
	r, _ := clocked()
	greedy := mustJoin(t, r).Memory()
	for range 10 {
		greedy.Take(1000, 200, false)
	}
	require.Positive(t, r.Metrics().Memtables.Overdrawn)
	for range 3 {
		m := mustJoin(t, r).Memory()
		for range 2 {
			require.True(t, m.Room(100))
			g := m.Take(1000, 100, false)
			require.True(t, g.Small())
			require.Equal(t, 100, g.Size(0))
		}
		require.False(t, m.Room(100))
	}
}

func TestALargeWriteIsAnOverdraftOnlyIfNothingIsFree(t *testing.T) {
	r, _ := clocked()
	s := mustJoin(t, r)
	m := s.Memory()
	g := m.Take(100, 800, false)
	require.False(t, g.Overdraft())
	require.Equal(t, 800, g.Size(0))
	h := m.Take(100, 300, false)
	require.True(t, h.Overdraft())
	require.EqualValues(t, 300, r.Metrics().Memtables.Overdrawn)
	g.Release()
	require.Equal(t, 200, m.Take(1000, 10, false).Size(0), "800 - 300 are free")
	h.Release()
	s.Leave()
	require.Zero(t, r.Metrics().Memtables.Used)
	late := m.Take(1000, 20, false)
	require.Equal(t, 1000, late.Size(0))
	late.Release()
	require.Zero(t, r.Metrics().Memtables.Used, "a store that has left has nothing")
}

func TestTheSlowestStoreIsAskedToFlush(t *testing.T) {
	r, now := clocked()
	idle, slow, busy := mustJoin(t, r).Memory(), mustJoin(t, r).Memory(), mustJoin(t, r).Memory()
	idleGrant := idle.Take(200, 10, false)
	slow.Take(1000, 10, true)
	*now = now.Add(time.Second)
	slow.Take(200, 10, false)
	slow.Take(200, 10, false)
	*now = now.Add(time.Second)
	first := busy.Take(200, 10, false)
	require.Zero(t, r.Metrics().Memtables.EarlyFlushes)
	*now = now.Add(time.Millisecond)
	take := func() int {
		g := busy.Take(200, 10, false)
		g.Release()
		return g.Size(0)
	}
	require.Equal(t, 100, take())
	require.True(t, signalled(idle.wanted))
	require.EqualValues(t, 1, r.Metrics().Memtables.EarlyFlushes)
	require.False(t, signalled(slow.wanted))
	require.True(t, idle.Take(200, 10, false).Small(), "modest until it has answered")
	take()
	require.False(t, signalled(slow.wanted), "enough memory will soon be free")
	*now = now.Add(askFor)
	take()
	require.True(t, signalled(slow.wanted), "the first did not answer")
	require.False(t, signalled(idle.wanted))
	idleGrant.Retire()
	idle.answered(true)
	slow.answered(false)
	take()
	require.False(t, signalled(slow.wanted) || signalled(idle.wanted))
	idleGrant.Release()
	first.Retire()
	require.Equal(t, 200, take())
}

func TestBusyStoresLeaveEachOtherInPeace(t *testing.T) {
	r, now := clocked()
	var stores []*Memory
	for range 4 {
		m := mustJoin(t, r).Memory()
		m.Take(200, 10, false)
		stores = append(stores, m)
	}
	*now = now.Add(time.Millisecond)
	require.Equal(t, 100, stores[0].Take(200, 10, false).Size(0))
	require.Zero(t, r.Metrics().Memtables.EarlyFlushes)
	late := stores[3]
	late.pool.mu.Lock()
	late.grants[0].since = late.grants[0].since.Add(-time.Millisecond)
	late.pool.mu.Unlock()
	stores[0].Take(200, 10, false)
	require.True(t, signalled(late.wanted))
}

// Otherwise a store that has used its own memory once would use the common memory from then on.
func TestAStoresOwnMemoryIsUsedAgain(t *testing.T) {
	m := mustJoin(t, newResources(8)).Memory()
	free := m.smallFree
	require.Positive(t, free)
	for range 2 * free {
		g := m.Take(1, 1, false)
		require.True(t, g.Small())
		g.Release()
		g.Release()
	}
	require.Equal(t, free, m.smallFree)
}

func TestACollectionStartsTheCountOfFlushedBytesAgain(t *testing.T) {
	m := mustJoin(t, newResources(8)).Memory()
	m.Flushed(1)
	require.EqualValues(t, 1, m.pool.garbage.Load(), "too little for a collection")
	m.Flushed(1 << 30) // much more than the heap of this test
	require.Zero(t, m.pool.garbage.Load())
}

// The memory that is granted without an overdraft is within the bound at any time.
func TestTheMemoryBoundHoldsUnderLoad(t *testing.T) {
	r := newResources(8)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 2))
			for range 20 {
				useMemory(t, r, rnd)
			}
		})
	}
	wg.Wait()
	require.Zero(t, r.Metrics().Memtables.Used)
}

// useMemory takes and releases memory as one store.
func useMemory(t *testing.T, r *Resources, rnd *rand.Rand) {
	s, err := r.Join()
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Leave()
	m := s.Memory()
	var held []*Grant
	for range 100 {
		if len(held) < 3 && m.Room(10) {
			g := m.Take(1+rnd.IntN(400), 10, rnd.IntN(4) == 0)
			if g.Overdraft() || g.Size(0) < 10 {
				t.Errorf("overdraft %v, %d bytes", g.Overdraft(), g.Size(0))
			}
			held = append(held, g)
		} else if len(held) > 0 {
			held[0].Retire()
			held[0].Release()
			held = held[1:]
		}
		if signalled(m.wanted) {
			m.answered(rnd.IntN(2) == 0)
		}
		if used := r.Metrics().Memtables.Used; used > 1600 {
			t.Errorf("%d bytes are in use", used)
		}
	}
}

func TestAStoreIsServedUntilItCloses(t *testing.T) {
	r, now := clocked()
	m := mustJoin(t, r).Memory()
	closing, done := make(chan struct{}), make(chan struct{})
	answers := []bool{true, false}
	go func() {
		defer close(done)
		m.Serve(closing, func() (bool, error) {
			yielded := answers[0]
			if answers = answers[1:]; len(answers) == 0 {
				close(closing)
			}
			return yielded, nil
		})
	}()
	m.wanted <- struct{}{}
	m.wanted <- struct{}{}
	<-done
	require.Equal(t, *now, m.refused)
	require.True(t, m.asked.IsZero())
}

func TestMemtablesHaveTheSizeOfTheirGrant(t *testing.T) {
	r := New(Options{MaxStores: 1, MaxOpenFiles: 10, MemtableSize: 1 << 20, MaxMerges: 1})
	m := mustJoin(t, r).Memory()
	small, g := m.NewMemtable(&sievedb.Comparer{Compare: bytes.Compare}, 1<<20, 100, true)
	require.LessOrEqual(t, small.Capacity()+small.FilterSize(), 256<<10)
	require.Greater(t, small.Capacity(), 250<<10)
	require.True(t, g.Small())
	alone, none := (*Memory)(nil).NewMemtable(sievedb.Bytewise, 1<<20, 100, true)
	require.Equal(t, memtable.ArenaSize(1<<20), alone.Capacity())
	require.Nil(t, none)
	large, _ := (*Memory)(nil).NewMemtable(sievedb.Bytewise, 1<<10, 1<<20, true)
	require.Equal(t, 1<<20, large.Capacity())
	for _, memory := range []*Memory{nil, m} {
		newMemtable, release := memory.ForRecovery(sievedb.Bytewise)
		for range 5 {
			require.GreaterOrEqual(t, newMemtable(1000, 100_000).Capacity(), 100_000)
			require.Less(t, r.Metrics().Memtables.Used, int64(600<<10))
		}
		require.GreaterOrEqual(t, newMemtable(2<<20, 2<<20).Capacity(), 2<<20)
		release()
		require.Zero(t, r.Metrics().Memtables.Overdrawn)
	}
	writers := tables(0)
	(&Store{r: r}).Trim(&writers)
	(*Store)(nil).Trim(&writers)
	require.EqualValues(t, 1, writers)
}

// tables counts calls of Trim.
type tables int

func (t *tables) Trim() { *t++ }
