package memtable

import (
	"math"
	"sync/atomic"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// Memtable is a sorted run in memory. Its methods are safe for concurrent use, except Touch, OmitFilter and Reset.
type Memtable struct {
	// What each lookup reads, up to the arena's head, is in one line of the processor's cache.
	compare  func(a, b []byte) int // fixed
	filter   runFilter             // bits are set and never cleared
	bytewise bool                  // fixed: compare is bytes.Compare
	// height is that of the tallest linked tower, 0 until an entry is added: readers of an empty memtable stop here.
	height atomic.Uint32
	guide  atomic.Pointer[guide] // nil while there are few entries

	arena
	// entries counts all entries in its lower 32 bits, and the tombstones among them in the others. The arena has
	// room for fewer than 2^32.
	entries  atomic.Int64
	guideDue atomic.Int64 // the number of entries at which the next guide is made
	// ranksSize is the size of the current Inserter's ranks, in bytes.
	ranksSize atomic.Int64

	walk filterWalk // of lookups that make the filter
}

// New returns an empty memtable in the order of cmp. Its arena of capacity bytes is allocated immediately. Pages fresh
// from the operating system use no memory until they are written; memory that the Go heap reuses is cleared first. The
// capacity is rounded down to a multiple of 4 and kept between the size of the list's head (then no Add succeeds) and 4
// GiB - 4. In a 32-bit address space New panics, as make does, well below that.
//
// The filter is allocated in addition to the arena, a byte for each 64 of it. There
// is none if cmp may call keys equal whose bytes, and so whose hashes, differ.
func New(cmp *sievedb.Comparer, capacity int) *Memtable {
	m := &Memtable{compare: cmp.Compare, bytewise: cmp.IsBytewise()}
	m.arena.init(capacity)
	m.guideDue.Store(firstGuide)
	if !cmp.InexactEqual {
		m.filter.init(m.capacity)
	}
	return m
}

// Touch makes the system provide all of the arena's memory now. Otherwise it does so as entries are added, and each
// time an Add waits. The memtable must be as New returned it, and must not be used concurrently.
func (m *Memtable) Touch() { m.arena.touch() }

// Settle reports to the system that the memtable needs no more memory than it has, or that it
// will soon be freed. Without it, the system may later use up to 2 MiB for each object that is
// allocated where the arena was. Settle does not change entries and is safe at any time.
func (m *Memtable) Settle() { hugepages.Done(m.arena.memory()) }

// Reset empties the memtable for reuse. An omitted filter stays omitted. Everything read
// from it, including iterators and values, must not be used any more, and neither may an
// Inserter used with it. The memtable must not be used concurrently.
func (m *Memtable) Reset() {
	m.arena.reset()
	if m.filter.state.Load() > filterOmitted {
		m.filter.state.Store(filterWhole) // nothing is left to enter
	}
	m.height.Store(1)
	m.entries.Store(0)
	m.guide.Store(nil)
	m.guideDue.Store(firstGuide)
	m.ranksSize.Store(0)
}

// EntrySize returns the largest number of arena bytes that an Add of a key and a value
// of these lengths uses, including alignment. An Add succeeds if that many bytes are
// Available. Larger results are reduced to math.MaxInt. The lengths must not be negative.
func EntrySize(keyLen, valueLen int) int {
	if keyLen > math.MaxInt-valueLen {
		return math.MaxInt
	}
	return int(min(nodeSize(maxHeight, keyLen, valueLen), math.MaxInt))
}

// Capacity returns the size of the arena in bytes.
func (m *Memtable) Capacity() int { return int(m.capacity) }

// Size returns the exact number of arena bytes in use: those of the entries and a few for the head of the list.
func (m *Memtable) Size() int { return int(m.used()) }

// Available returns the number of unused arena bytes.
func (m *Memtable) Available() int { return int(m.capacity - m.used()) }

// Len returns the number of entries, including each whose Add has returned and perhaps others whose Add is running.
func (m *Memtable) Len() int { return int(uint32(m.entries.Load())) }

// Tombstones is Len for the tombstones alone.
func (m *Memtable) Tombstones() int { return int(m.entries.Load() >> 32) }

// countOf is what an entry of that kind adds to entries.
func countOf(kind base.Kind) int64 {
	if kind == base.KindDelete {
		return 1<<32 + 1
	}
	return 1
}

// Add inserts an entry, with copies of key and value. If the arena has no room for it, Add changes nothing and returns
// false. Once it has returned true, every Get and every movement of an iterator that begins later sees the entry.
//
// The caller must ensure that no two entries have equal keys and the same seq, and that seq is at most base.MaxSeq.
// Otherwise it is undefined which of the duplicates is found; other entries are not affected.
func (m *Memtable) Add(seq uint64, kind base.Kind, key, value []byte) bool {
	var s splice
	return m.add(&s, seq, kind, key, value)
}

func (m *Memtable) add(s *splice, seq uint64, kind base.Kind, key, value []byte) bool {
	t := m.newTarget(key, base.MakeTrailer(seq, kind))
	// Atomic operations wait for all loads and stores before them. So all loads come
	// first, and wait for memory together.
	e := groupEntry{filter: m.filter.prepare(key), height: randomHeight()}
	s.find(m, &t, e.height)
	free, ok := m.alloc(nodeSize(e.height, len(key), len(value)), 1)
	if !ok {
		return false
	}
	e.node = free + uint32(e.height-1)*linkSize
	m.fill(e.node, t.trailer, key, value)
	m.enter(s, &t, &e)
	m.entries.Add(countOf(kind))
	return true
}

// linkLevel puts node between before and after on level, or returns false if they are not neighbours.
func (m *Memtable) linkLevel(node, before, after uint32, level int) bool {
	// No other goroutine reads node's links on this level before the swap below,
	// so they need no atomic stores, which cost as much as the swap.
	*m.nextWord(node, level) = after
	if level > 0 {
		return m.next(before, level).CompareAndSwap(after, node)
	}
	*m.prevWord(node) = before
	if !m.next(before, 0).CompareAndSwap(after, node) {
		return false
	}
	m.linkBack(node, after)
	return true
}

// linkBack makes after.prev point at node or at a later node. It writes only after it has read, in this order, the old
// value and that node's successor is after. So the old value was not later than node, and the link only moves forward.
// If another writer inserts between node and after, that writer updates the link instead. Thus the link points to the
// last entry before after whose Add has returned, or to a later entry, and it is exact when no Add is under way.
func (m *Memtable) linkBack(node, after uint32) {
	link := m.prev(after)
	for {
		old := link.Load()
		if old == node || m.next(node, 0).Load() != after {
			return
		}
		if link.CompareAndSwap(old, node) {
			return
		}
	}
}

// raise makes later searches begin at least at height. A concurrent search may begin lower, which is only slower. It
// begins at 0, which finds nothing, only while no Add has returned.
func (m *Memtable) raise(height int) {
	for {
		old := m.height.Load()
		if int(old) >= height || m.height.CompareAndSwap(old, uint32(height)) {
			return
		}
	}
}

// Get returns the newest entry of key whose sequence number is at most seq, which must
// be at most base.MaxSeq. For a tombstone ok is true and kind is base.KindDelete.
// value points into the arena: it must not be changed, and stays valid for as long as
// it is referenced. Get takes no lock and allocates nothing. It does not use the filter:
// callers that have the key's hash should call MayHold first.
func (m *Memtable) Get(key []byte, seq uint64) (value []byte, kind base.Kind, ok bool) {
	t := m.newTarget(key, base.MakeTrailer(seq, base.KindSeek))
	_, node := m.search(&t)
	if node == end || !m.hasKey(node, key) {
		return nil, 0, false
	}
	_, kind = base.SplitTrailer(m.trailer(node))
	return m.value(node), kind, true
}
