package tables

import (
	"sync"
	"sync/atomic"
	"weak"

	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/sstable"
)

// LeastOpen is how many tables that no iterator holds stay open however much memory they use, so that readers can
// finish with those that they opened.
const LeastOpen = 10

// memoryUse counts the memory of a Cache's tables, against the bound of open tables and in the block cache. The runtime
// keeps it for as long as there is a Reader, so it must not refer to the Cache: a store that its owner lost without
// closing it could never be freed.
type memoryUse struct {
	blocks *sstable.BlockCache // nil: there is none
	part   *share.TablePart
	closed atomic.Uint64 // tables closed because of the bound

	mu sync.Mutex // guards the fields below
	// bytes are used, of which free are beside the blocks. The rest takes room from the blocks, but at most most,
	// if that is not below 0.
	bytes, free, most int64
	charged           int64 // taken from the blocks now
}

// newMemoryUse returns what counts the memory of t's tables. The options of t are set.
func newMemoryUse(t *Cache) *memoryUse {
	owner := weak.Make(t)
	evict := func(background bool) bool {
		t := owner.Value()
		return t != nil && t.evict(background)
	}
	return &memoryUse{blocks: t.options.Reader.Cache, part: t.options.Memory.Join(evict)}
}

// Add is sstable.MemoryUse's.
func (m *memoryUse) Add(bytes int64) {
	m.part.Add(bytes)
	m.mu.Lock()
	m.bytes += bytes
	m.chargeUnlock()
}

// chargeUnlock takes from the blocks what the tables displace, without the lock.
func (m *memoryUse) chargeUnlock() {
	now := max(m.bytes-m.free, 0)
	if m.most >= 0 {
		now = min(now, m.most)
	}
	change := now - m.charged
	m.charged = now
	m.mu.Unlock()
	if change != 0 && m.blocks != nil {
		m.blocks.Charge(change)
	}
}

// SetBeside says that filters and indexes may use free bytes beside the blocks, and that what they use above that is
// taken from the blocks: at most most, unless that is below 0. At first nothing is taken from the blocks.
func (t *Cache) SetBeside(free, most int64) {
	t.memory.mu.Lock()
	t.memory.free, t.memory.most = free, most
	t.memory.chargeUnlock()
}

// Settle is sstable.MemoryUse's.
func (m *memoryUse) Settle() { m.part.Settle() }

// evict closes the table that was not used for the longest time, in the background if asked. It passes over those that
// iterators hold: they would keep the memory, and the next reader would have to open the table again.
func (t *Cache) evict(background bool) bool {
	idle := func(r **sstable.Reader) bool { return (*r).Idle() }
	if !t.open.HasMore(LeastOpen, idle) {
		return false
	}
	return t.open.Evict(background, idle, func(r **sstable.Reader) {
		t.memory.closed.Add(1)
		if (*r).Idle() { // otherwise an iterator that has just come keeps the memory
			(*r).ReturnMemory()
		}
	})
}

// Settle closes tables until their memory is within the bound. It is for callers that have just closed an iterator,
// and hold no lock.
func (t *Cache) Settle() { t.memory.Settle() }

// Memory describes the memory of open tables.
type Memory struct {
	// Bytes are used by the tables of the store, including those that only iterators keep. Limit is the bound.
	Bytes, Limit int64
	// Closed counts the tables that were closed because of the bound.
	Closed uint64
}

// Memory returns the present state.
func (t *Cache) Memory() Memory {
	return Memory{Bytes: t.memory.part.Bytes(), Limit: t.memory.part.Limit(), Closed: t.memory.closed.Load()}
}

// SetMemory changes the bound of the memory of filters and indexes, and closes tables until they are within it.
func (t *Cache) SetMemory(limit int64) { t.memory.part.SetLimit(limit) }
