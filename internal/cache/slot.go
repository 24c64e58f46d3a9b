package cache

import (
	"sync/atomic"
	"unsafe"
)

// What entry.state holds. An entry starts at 0, a hit raises it to maxHits at
// most, the hand of the main queue brings it down to clockHits-1 or by one. The
// two greater values belong to marks: entries without a value that a slot points
// to instead of nil.
const (
	clockHits = 3 // what the hand counts, as S3-FIFO: two bits tell hot from warm, one bit does not
	maxHits   = 127

	stateGhost  = maxHits + 1 // the slot's value was evicted from probation
	stateClosed = maxHits + 2 // the slot was dropped
)

// entry is a kept value. state and value come first, so that a hit finds both in
// one cache line; they are all that a hit touches.
type entry[V any] struct {
	state atomic.Uint32
	// inMain tells the queue. Guarded by the shard's lock, as are slot, prev, next.
	inMain bool
	large  bool      // has a smaller form, see NewWithForms; never changes
	value  V         // never changes once the entry is in a slot
	size   int64     // never changes
	slot   *Slot[V]  // nil once the entry has left its slot
	prev   *entry[V] // towards the head
	next   *entry[V] // towards the tail
}

// EntrySize is the memory, in bytes, that a Cache[V] allocates for a kept value:
// the V itself, its size and its place in a queue. A cache whose unit is the byte
// stays honest by adding it to each size that a load reports.
func EntrySize[V any]() int64 { return int64(unsafe.Sizeof(entry[V]{})) }

// Slot is the place that an owner keeps for one value of one Cache; it is one
// word. The zero Slot is empty. Its address must not change while in use: a
// Slot is not copied, and a []Slot that was used is not grown.
//
// A kept value holds on to its Slot, and so to the array that the Slot is in,
// until it is evicted or dropped.
type Slot[V any] struct {
	// p is nil, an entry or a mark. It is written under the shard's lock only.
	p atomic.Pointer[entry[V]]
}

// Get returns the value in the slot, nil when there is none, and counts as a use
// of it. The value is immutable and stays as it is for as long as the caller
// holds on to it, even if it is evicted meanwhile.
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
		// Not an atomic increment: a hit lost to a concurrent one costs nothing.
		e.state.Store(hits + 1)
	}
	return &e.value
}

// Peek is Get without counting as a use, for readers that pass by only once,
// such as compactions.
func (s *Slot[V]) Peek() *V {
	if e := s.held(); e != nil {
		return &e.value
	}
	return nil
}

// Touch loads the slot's line from memory, for a use soon of it or of its neighbours.
func (s *Slot[V]) Touch() { s.p.Load() }

// Warm says whether the slot's value was used at least as often as the hand of its
// queue counts: more than once or twice in its turn.
func (s *Slot[V]) Warm() bool {
	e := s.held()
	return e != nil && e.state.Load() >= clockHits
}

// held is the slot's entry, nil when the slot is empty or holds a mark.
func (s *Slot[V]) held() *entry[V] {
	if e := s.p.Load(); e != nil && e.state.Load() <= maxHits {
		return e
	}
	return nil
}

// closed says whether the slot was dropped.
func (s *Slot[V]) closed() bool {
	e := s.p.Load()
	return e != nil && e.state.Load() == stateClosed
}

// newMark makes an entry without a value. Its state never changes.
func newMark[V any](state uint32) *entry[V] {
	e := new(entry[V])
	e.state.Store(state)
	return e
}
