package share

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeTables is a store whose tables use ten bytes each.
type fakeTables struct {
	part  *TablePart
	count int // guarded by the TableMemory's lock or by the test
	least int
}

func (f *fakeTables) evict(bool) bool {
	if f.count <= f.least {
		return false
	}
	f.count--
	f.part.Add(-10)
	return true
}

func (f *fakeTables) open(n int) {
	f.count += n
	f.part.Add(int64(10 * n))
	f.part.Settle()
}

func TestTheStoreWithMostMemoryClosesTables(t *testing.T) {
	m := NewTableMemory(100, 0, true)
	stores := make([]fakeTables, 3)
	for i := range stores {
		stores[i].part = m.Join(stores[i].evict)
	}
	stores[0].open(8)
	require.True(t, stores[0].part.HasRoom(20))
	require.False(t, stores[0].part.HasRoom(21))
	stores[1].open(3)
	require.Equal(t, []int{7, 3}, []int{stores[0].count, stores[1].count})
	stores[2].open(4)
	require.Equal(t, []int{3, 3, 4}, []int{stores[0].count, stores[1].count, stores[2].count})
	stores[1].part.Leave()
	stores[1].part.Leave()
	stores[2].open(3)
	require.Equal(t, []int{3, 7}, []int{stores[0].count, stores[2].count}, "what the closed store had is free")
	stores[1].part.Add(-30)
	require.EqualValues(t, 100, m.used.Load(), "it counts no more")
}

func TestAStoreThatCannotCloseTablesDoesNotStopTheOthers(t *testing.T) {
	m := NewTableMemory(100, 0, false)
	stuck, other := fakeTables{least: 8}, fakeTables{}
	stuck.part, other.part = m.Join(stuck.evict), m.Join(other.evict)
	stuck.open(8)
	other.open(4)
	require.Equal(t, []int{8, 2}, []int{stuck.count, other.count})
	other.part.SetLimit(50)
	require.Equal(t, []int{8, 0}, []int{stuck.count, other.count})
	require.EqualValues(t, 80, stuck.part.Bytes())
	require.EqualValues(t, 50, stuck.part.Limit())
}

func TestAStoreKeepsItsLeastPartWhateverTheOthersDo(t *testing.T) {
	m := NewTableMemory(100, 20, true)
	iterators, other := fakeTables{least: 15}, fakeTables{}
	iterators.part, other.part = m.Join(iterators.evict), m.Join(other.evict)
	iterators.open(15)
	other.open(5)
	require.Equal(t, []int{15, 2}, []int{iterators.count, other.count})
	iterators.least = 0
	other.open(1)
	require.Equal(t, []int{7, 3}, []int{iterators.count, other.count}, "once the first can close tables, it does")
}

func TestPartsAreCountedWhileTheyLeave(t *testing.T) {
	for range 100 {
		m := NewTableMemory(1000, 0, true)
		p := m.Join(func(bool) bool { return false })
		var wg sync.WaitGroup
		wg.Go(func() { p.Add(10); p.Add(-10); p.Add(7) })
		wg.Go(p.Leave)
		wg.Wait()
		require.Zero(t, m.used.Load())
	}
}
