package share

import (
	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/memtable"
)

// NewMemtable returns a memtable of usual bytes, with its filter, or less if there is not as much memory, but with room
// for least bytes in its arena. modest is that of Take. A nil Memory always returns what is usual, and no grant.
func (m *Memory) NewMemtable(cmp *sievedb.Comparer, usual int, least uint64, modest bool) (*memtable.Memtable, *Grant) {
	g := m.Take(usual, memtable.TotalSize(least), modest)
	return memtable.New(cmp, int(max(uint64(memtable.ArenaSize(g.Size(usual))), least))), g
}

// ForRecovery returns a function that makes one memtable after another, each with an arena of usual
// bytes or, if memory is scarce, of at least so many, and without a filter. The memory of one is
// released when the next is made, that of the last one by release.
func (m *Memory) ForRecovery(cmp *sievedb.Comparer) (newMemtable func(least, usual uint64) *memtable.Memtable, release func()) {
	var last *Grant
	newMemtable = func(least, usual uint64) (mem *memtable.Memtable) {
		last.Release()
		if m == nil {
			mem = memtable.New(cmp, int(usual))
		} else {
			mem, last = m.NewMemtable(cmp, memtable.TotalSize(usual), least, false)
		}
		mem.OmitFilter() // it is written to a table
		return mem
	}
	return newMemtable, func() { last.Release() }
}
