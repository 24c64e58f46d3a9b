package memtable

import (
	"math"
	"sync/atomic"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/hugepages"
)

// Memtable is a sorted run in memory. All its methods are safe for concurrent
// use.
type Memtable struct {
	compare  func(a, b []byte) int // fixed
	bytewise bool                  // fixed: compare is bytes.Compare
	filter   runFilter             // its words only ever gain bits
	// height is that of the tallest tower that is linked, 0 while nothing was added:
	// readers of an empty memtable look no further.
	height atomic.Uint32
	guide  atomic.Pointer[guide] // nil while there are few entries

	arena
	entries  atomic.Int64
	guideDue atomic.Int64 // how many entries make the next guide
	// ranksSize is what the Inserter that fills the memtable takes for its ranks, in bytes.
	ranksSize atomic.Int64
}

// New returns an empty memtable in the order of cmp. Its arena of capacity
// bytes is allocated at once; pages fresh from the operating system take no
// memory until they are written, while memory that the Go heap reuses is
// cleared first. Capacity is rounded down to a multiple of 4 and kept between
// what the head of the list needs (then no Add succeeds) and 4 GiB - 4. In a
// 32-bit address space New panics, as make does, well below that.
//
// The filter is allocated beside the arena, a byte for each 64 of it. There is
// none if cmp calls keys equal whose bytes, and so whose hashes, differ.
func New(cmp *sievedb.Comparer, capacity int) *Memtable {
	m := &Memtable{compare: cmp.Compare, bytewise: cmp.IsBytewise()}
	m.arena.init(capacity)
	m.guideDue.Store(firstGuide)
	if !cmp.InexactEqual {
		m.filter.init(m.capacity)
	}
	return m
}

// Touch has the system provide all of the arena's memory now, which it otherwise does as
// entries come, each time keeping an Add waiting. The memtable is still as New made it,
// and nothing else uses it meanwhile.
func (m *Memtable) Touch() { m.arena.touch() }

// Settle tells the system that the memtable takes no more memory than it has by now, or soon goes
// away. Without that the system may take up to 2 MiB again, later, for each object that comes to lie
// where the arena was. Whatever else is under way, it changes nothing of the entries.
func (m *Memtable) Settle() { hugepages.Done(m.arena.memory()) }

// Reset empties the memtable for use anew: whatever was read from it, iterators and
// values included, must not be used any more, and neither may an Inserter that was.
// Nothing else may use the memtable meanwhile.
func (m *Memtable) Reset() {
	m.arena.reset()
	m.height.Store(1)
	m.entries.Store(0)
	m.guide.Store(nil)
	m.guideDue.Store(firstGuide)
	m.ranksSize.Store(0)
}

// EntrySize returns the most bytes of arena that one Add of a key and a value
// of these lengths takes, alignment included. An Add that finds that much
// Available succeeds. The result is math.MaxInt where it would be
// larger; the lengths are not negative.
func EntrySize(keyLen, valueLen int) int {
	if keyLen > math.MaxInt-valueLen {
		return math.MaxInt
	}
	return int(min(nodeSize(maxHeight, keyLen, valueLen), math.MaxInt))
}

// Capacity returns the size of the arena in bytes.
func (m *Memtable) Capacity() int { return int(m.capacity) }

// Size returns the bytes of the arena in use, exactly: those of the entries and
// a few for the head of the list.
func (m *Memtable) Size() int { return int(m.used.Load()) }

// Available returns the bytes of the arena that are not used yet.
func (m *Memtable) Available() int { return int(m.capacity - m.used.Load()) }

// Len returns the number of entries whose Add has returned, perhaps a few more
// while others run.
func (m *Memtable) Len() int { return int(m.entries.Load()) }

// Add inserts an entry, with copies of key and value. It returns false, with
// nothing changed, when the arena has no room for it. Once it has returned
// true, every Get and every movement of an iterator that begins later sees the
// entry.
//
// The caller promises that no two entries have equal keys and the same seq, and
// that seq is at most base.MaxSeq. A broken promise harms no other entry; which
// of the twins is found is undefined.
func (m *Memtable) Add(seq uint64, kind base.Kind, key, value []byte) bool {
	var s splice
	return m.add(&s, seq, kind, key, value)
}

func (m *Memtable) add(s *splice, seq uint64, kind base.Kind, key, value []byte) bool {
	t := m.newTarget(key, base.MakeTrailer(seq, kind))
	// Atomic operations wait for all loads and stores before them: what is loaded comes
	// first, and from memory all at once.
	e := groupEntry{filter: m.filter.prepare(key), height: randomHeight()}
	s.find(m, &t, e.height)
	free, ok := m.alloc(nodeSize(e.height, len(key), len(value)))
	if !ok {
		return false
	}
	e.node = free + uint32(e.height-1)*linkSize
	m.fill(e.node, t.trailer, key, value)
	m.enter(s, &t, &e)
	m.entries.Add(1)
	return true
}

// linkLevel puts node between before and behind on level, or returns false if
// they are not neighbours.
func (m *Memtable) linkLevel(node, before, behind uint32, level int) bool {
	// No other goroutine looks at node's links of this level before the swap
	// below, so they need no atomic stores, which cost as much as the swap.
	*m.nextWord(node, level) = behind
	if level > 0 {
		return m.next(before, level).CompareAndSwap(behind, node)
	}
	*m.prevWord(node) = before
	if !m.next(before, 0).CompareAndSwap(behind, node) {
		return false
	}
	m.linkBack(node, behind)
	return true
}

// linkBack makes behind.prev point at node or at a later node. It writes only
// after it has seen, in this order, the old value and that nothing stands
// between node and behind, so the old value was not later than node and the
// link only ever moves forward. Whoever comes between node and behind instead
// takes over the duty. Thus the link names every entry's Add that has returned
// or a later entry, and it is exact when no Add is under way.
func (m *Memtable) linkBack(node, behind uint32) {
	link := m.prev(behind)
	for {
		old := link.Load()
		if old == node || m.next(node, 0).Load() != behind {
			return
		}
		if link.CompareAndSwap(old, node) {
			return
		}
	}
}

// raise makes searches begin at height at least. They may begin lower, for a
// while, at no harm but to their speed; from 0, which finds nothing, only while no
// Add has returned.
func (m *Memtable) raise(height int) {
	for {
		old := m.height.Load()
		if int(old) >= height || m.height.CompareAndSwap(old, uint32(height)) {
			return
		}
	}
}

// Get returns the newest entry of key whose sequence is at most seq, which is
// at most base.MaxSeq. For a tombstone ok is true and kind base.KindDelete.
// value points into the arena: it must not be changed, and holds as long as it
// is referred to. Get takes no lock and allocates nothing. It searches the list
// whatever the filter says: who has the key's hash asks MayHold first.
func (m *Memtable) Get(key []byte, seq uint64) (value []byte, kind base.Kind, ok bool) {
	t := m.newTarget(key, base.MakeTrailer(seq, base.KindSeek))
	_, node := m.search(&t)
	if node == end || !m.hasKey(node, key) {
		return nil, 0, false
	}
	_, kind = base.SplitTrailer(m.trailer(node))
	return m.value(node), kind, true
}
