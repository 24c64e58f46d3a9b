package cache

import (
	"sync/atomic"
	"unsafe"
)

// The values of entry.state. An entry starts at 0, a hit increments it up to maxHits,
// and the hand of the main queue reduces it to clockHits-1 or by one. The two greater
// values belong to marks: entries without a value that a slot points to instead of nil.
const (
	clockHits = 3 // the most that the hand counts, as in S3-FIFO; one bit does not separate hot from warm
	maxHits   = 127

	stateGhost  = maxHits + 1 // the slot's value was evicted from probation
	stateClosed = maxHits + 2 // the slot was dropped
)

// entry is a kept value. state and value, the only fields that a hit touches, come
// first, so that both are in one cache line.
type entry[V any] struct {
	state atomic.Uint32
	// inMain says which queue it is in. The shard's lock guards it, and slot, prev, next.
	inMain bool
	large  bool      // has a smaller form, see NewWithForms; never changes
	value  V         // never changes once the entry is in a slot
	size   int64     // never changes
	slot   *Slot[V]  // nil once the entry has left its slot
	prev   *entry[V] // towards the head
	next   *entry[V] // towards the tail
}

// EntrySize returns the memory, in bytes, that a Cache[V] allocates for a kept value:
// the V itself, its size and its place in a queue. In a cache whose unit is the byte,
// loads should add it to each size that they report.
func EntrySize[V any]() int64 { return int64(unsafe.Sizeof(entry[V]{})) }

// Slot is an owner's place for one value of one Cache. It is one word. The zero Slot is empty. Its address must not
// change while it is in use: a Slot must not be copied, and a []Slot that was used must not be grown.
//
// A kept value keeps its Slot reachable, and so the array that the Slot is in, until it is evicted or dropped.
type Slot[V any] struct {
	// p is nil, an entry or a mark. It is written under the shard's lock only.
	p atomic.Pointer[entry[V]]
}

// Get returns the value in the slot, or nil if there is none. It counts as a use of the value. The value is immutable
// and stays valid for as long as the caller refers to it, even if it is evicted meanwhile.
func (s *Slot[V]) Get() *V {
	// Just small enough to be inlined; a call for the rarer cases would not be.
	e := s.p.Load()
	if e == nil {
		return nil
	}
	hits := e.state.Load()
	if hits > maxHits {
		return nil
	}
	if hits < maxHits {
		// Not an atomic increment: losing a hit to a concurrent one does not matter.
		e.state.Store(hits + 1)
	}
	return &e.value
}

// Peek is Get but does not count as a use. It is meant for readers that use a value only once, such as compactions.
func (s *Slot[V]) Peek() *V {
	if e := s.held(); e != nil {
		return &e.value
	}
	return nil
}

// Touch loads the slot's cache line, before a use of the slot or of its neighbours.
func (s *Slot[V]) Touch() { s.p.Load() }

// TouchValue loads the cache line that Get reads after the slot itself.
func (s *Slot[V]) TouchValue() {
	if e := s.p.Load(); e != nil {
		e.state.Load()
	}
}

// Warm reports whether the slot's value was used at least as often as the hand of its
// queue counts: three times or more in its turn.
func (s *Slot[V]) Warm() bool {
	e := s.held()
	return e != nil && e.state.Load() >= clockHits
}

// held returns the slot's entry, or nil if the slot is empty or holds a mark.
func (s *Slot[V]) held() *entry[V] {
	if e := s.p.Load(); e != nil && e.state.Load() <= maxHits {
		return e
	}
	return nil
}

// closed reports whether the slot was dropped.
func (s *Slot[V]) closed() bool {
	e := s.p.Load()
	return e != nil && e.state.Load() == stateClosed
}

// newMark returns an entry without a value. Its state never changes.
func newMark[V any](state uint32) *entry[V] {
	e := new(entry[V])
	e.state.Store(state)
	return e
}
