package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// Shares of a shard's budget. In simulation a probation of 1/32 to 1/8 differs
	// by under one point; see the package comment for the traces.
	probationDivisor = 16
	// While main has less than share - share/fillDivisor, values skip probation.
	// The gap to probationDivisor keeps the odd eviction from main, which leaves
	// room there, from opening this door to a scan.
	fillDivisor = 8

	// Slots remember evictions of this many generations back, the current one
	// included. A generation is a quarter of the shard's count of entries, but
	// at least minGeneration evictions: each generation costs one mark, which the
	// slots that point to it keep alive.
	ghostGenerations = 4
	minGeneration    = 32

	// Of the values that come into probation, usefulAll times the share that was used
	// before the next one came is what useful tends to, by a usefulWeight of the difference each time.
	// Below usefulEnough, one in passSample of those that nothing is known of is
	// taken in, to see whether that has changed.
	usefulAll    = 1 << 10
	usefulWeight = 16
	usefulEnough = usefulAll / 8
	passSample   = 8

	// What is asked for again, and finds the hand at a value in use, moves it on by so many.
	// With one a hot set that moves is followed too slowly (67 % of hits instead of 72).
	handSteps = 3

	// A value is hot that was used hotTimes as often as those that the hand meets,
	// on the average of about heatWeight of them, and at least leastHot times. A
	// large form goes that was used less often than they, or less than leastLarge times.
	// Heat is counted in units of 1/heatUnit uses.
	heatUnit   = 1 << 8
	heatWeight = 64
	hotTimes   = 4
	leastHot   = 8
	leastLarge = 4
	// A shard is busy whose heat is at least so many uses; at most leastHot would be always.
	busyUses = 4
)

// shard is a lock and what it guards: two queues, the loads under way and the
// counters, for the slots whose addresses fall to it.
type shard[V any] struct {
	mu sync.Mutex

	// probation and main hold each kept entry once; an entry is in a queue
	// exactly while its slot points to it.
	probation queue[V]
	main      queue[V]

	// flights has the loads under way. A slot that holds an entry has none.
	flights map[*Slot[V]]*flight[V]
	spare   *flight[V] // of a load that is done, for the next one; may be nil

	// ghosts are the marks of the youngest generations, ghosts[0] is the current
	// one, which markedInGeneration slots have got so far.
	ghosts             [ghostGenerations]*entry[V]
	markedInGeneration int64

	// passes are the marks of values that were passed by in the same generations, of
	// which lastPassed is the last.
	passes     [ghostGenerations]*entry[V]
	lastPassed *Slot[V]
	useful     int64 // see usefulAll
	asked      int64 // by values that nothing was known of, while useful was too low

	heat int64         // uses of a value in a turn of the hand, in units of 1/heatUnit
	hot  atomic.Uint32 // the uses that make a value hot, by heat

	// inserts = evictions + drops + entries in the queues, whenever mu is free.
	inserts, evictions, drops, unkept, passed int64

	_ [64]byte // the next shard's lock is on a line of its own
}

// flight is a load under way. One that nobody waited for is used again.
type flight[V any] struct {
	done chan struct{} // made by the first goroutine that waits; guarded by the shard's lock
	// Written by the loading goroutine before done is closed.
	entry *entry[V] // nil if err is not
	err   error
}

func (sh *shard[V]) sizeLocked() int64 { return sh.probation.size + sh.main.size }

// insertLocked puts e into the slot, which is empty, and into the queue that the
// slot's history and the filling of a shard with this share call for.
func (sh *shard[V]) insertLocked(s *Slot[V], e *entry[V], share int64) {
	e.inMain = sh.fillingLocked(e.size, share) || s != sh.lastPassed && sh.remembersLocked(s)
	e.slot = s
	if newest := sh.probation.head; !e.inMain && newest != nil {
		sh.judgeLocked(newest)
	}
	sh.queueOf(e).pushHead(e)
	sh.inserts++
	s.p.Store(e)
}

// warmLocked counts a value that the hand met, and that had so many hits.
func (sh *shard[V]) warmLocked(hits uint32) {
	sh.setHeatLocked(sh.heat + (int64(hits)*heatUnit-sh.heat)/heatWeight)
}

// judgeLocked counts whether a value was used before the next came into probation.
func (sh *shard[V]) judgeLocked(e *entry[V]) {
	used := int64(0)
	if e.state.Load() > 0 {
		used = usefulAll
	}
	sh.useful += (used - sh.useful) / usefulWeight
}

func (sh *shard[V]) setHeatLocked(heat int64) {
	sh.heat = heat
	sh.hot.Store(uint32(min(max(leastHot, hotTimes*heat/heatUnit), maxHits)))
}

// fillingLocked says whether main has so much room that nothing has to prove itself.
func (sh *shard[V]) fillingLocked(size, share int64) bool {
	return size <= share-share/fillDivisor-sh.main.size
}

// wantsLocked says whether a value for the slot should be taken in.
//
// One that was asked for before is, once the hand of main stands at a value that nobody
// used in its turn; until then each such question moves the hand on a little. Where all
// values are of one heat, none is worth an eviction for another.
//
// One that nothing is known of is, if those that are new are used again at once. Lookups
// in key order do that, lookups of random keys hardly ever: then a value that comes in
// costs memory and an eviction for nothing.
func (sh *shard[V]) wantsLocked(s *Slot[V], size, share int64) bool {
	switch {
	case sh.fillingLocked(size, share):
		return true
	case s == sh.lastPassed:
		return true // so soon: probation will tell
	case sh.remembersLocked(s):
		for range handSteps {
			if sh.idleLocked() {
				return true
			}
		}
		return false
	case sh.useful >= usefulEnough:
		return true
	}
	sh.asked++
	return sh.asked%passSample == 0
}

// idleLocked says whether the value that the hand of main stands at should go: what nobody
// used, and large forms that were used less than others are. It moves the hand on if not.
func (sh *shard[V]) idleLocked() bool {
	e := sh.main.tail
	if e == nil {
		return true
	}
	hits := e.state.Load()
	if hits == 0 || e.large && int64(hits) < max(leastLarge, sh.heat/heatUnit) {
		return true
	}
	sh.warmLocked(hits)
	e.state.Store(min(hits, clockHits) - 1)
	sh.main.moveToHead(e)
	return false
}

// victimLocked takes the entry that should go next out of its queue and its slot;
// nil when nothing is held.
func (sh *shard[V]) victimLocked(share int64) *entry[V] {
	if sh.main.count == 0 || sh.probation.size > share/probationDivisor {
		e := sh.probation.tail
		if e == nil {
			return nil
		}
		sh.removeLocked(e, sh.ghostLocked())
		sh.evictions++
		return e
	}
	// The count of turns bounds the search where hits race with the hand.
	for turns := clockHits * sh.main.count; turns > 0 && !sh.idleLocked(); turns-- {
	}
	e := sh.main.tail
	hits := e.state.Load()
	sh.warmLocked(hits)
	mark := (*entry[V])(nil)
	if e.large && hits > 0 {
		mark = sh.ghostLocked() // what is loaded again, in its smaller form, goes to main at once
	}
	sh.removeLocked(e, mark)
	sh.evictions++
	return e
}

// beginFlightLocked notes that the slot's value is being loaded.
func (sh *shard[V]) beginFlightLocked(s *Slot[V]) *flight[V] {
	f := sh.spare
	if f == nil {
		f = new(flight[V])
	}
	sh.spare = nil
	f.err = errLoadPanicked // until load has returned
	sh.flights[s] = f
	return f
}

// endFlightLocked returns what wakes those who wait for the load, nil if nobody
// does: then f belongs to the shard again.
func (sh *shard[V]) endFlightLocked(s *Slot[V], f *flight[V]) (done chan struct{}) {
	delete(sh.flights, s)
	if f.done == nil {
		*f = flight[V]{}
		sh.spare = f
		return nil
	}
	return f.done
}

// replaceLocked puts e where old is, which is in its slot: the place in the
// queue and the hits pass on.
func (sh *shard[V]) replaceLocked(old, e *entry[V]) {
	e.inMain, e.slot, e.prev, e.next = old.inMain, old.slot, old.prev, old.next
	e.state.Store(old.state.Load())
	q := sh.queueOf(e)
	if e.prev != nil {
		e.prev.next = e
	} else {
		q.head = e
	}
	if e.next != nil {
		e.next.prev = e
	} else {
		q.tail = e
	}
	q.size += e.size - old.size
	e.slot.p.Store(e)
	old.slot, old.prev, old.next = nil, nil, nil // who still reads the value keeps nothing else alive
}

// removeLocked takes e out of its queue and leaves mark, which may be nil, in its
// slot. It cuts e's pointers: who still reads the value keeps nothing else alive.
func (sh *shard[V]) removeLocked(e, mark *entry[V]) {
	sh.queueOf(e).remove(e)
	e.slot.p.Store(mark)
	e.slot = nil
}

// removeAllLocked empties the shard and returns what it held.
func (sh *shard[V]) removeAllLocked() []*entry[V] {
	all := make([]*entry[V], 0, sh.probation.count+sh.main.count)
	for _, q := range []*queue[V]{&sh.probation, &sh.main} {
		for q.tail != nil {
			all = append(all, q.tail)
			sh.removeLocked(q.tail, nil)
		}
	}
	sh.drops += int64(len(all))
	return all
}

func (sh *shard[V]) queueOf(e *entry[V]) *queue[V] {
	if e.inMain {
		return &sh.main
	}
	return &sh.probation
}

// ghostLocked returns the mark for a slot whose entry was evicted too soon to
// tell whether its value is wanted.
func (sh *shard[V]) ghostLocked() *entry[V] {
	sh.countMarkLocked()
	return sh.ghosts[0]
}

// markPassedLocked notes in a slot that its value was passed by.
func (sh *shard[V]) markPassedLocked(s *Slot[V]) {
	sh.countMarkLocked()
	sh.lastPassed = s
	s.p.Store(sh.passes[0])
}

// countMarkLocked counts a mark that is given out, and begins a new generation
// where that is due.
func (sh *shard[V]) countMarkLocked() {
	generation := max(minGeneration, (sh.probation.count+sh.main.count)/ghostGenerations)
	if sh.ghosts[0] == nil || sh.markedInGeneration >= generation {
		copy(sh.ghosts[1:], sh.ghosts[:])
		copy(sh.passes[1:], sh.passes[:])
		sh.ghosts[0], sh.passes[0] = newMark[V](stateGhost), newMark[V](stateGhost)
		sh.markedInGeneration = 0
	}
	sh.markedInGeneration++
}

// remembersLocked says whether the slot got a ghost, or was passed by, within the last
// generations.
func (sh *shard[V]) remembersLocked(s *Slot[V]) bool {
	mark := s.p.Load()
	if mark == nil {
		return false
	}
	return slices.Contains(sh.ghosts[:], mark) || slices.Contains(sh.passes[:], mark)
}

// queue is a doubly linked list of entries: in at the head, out at the tail, and
// from the middle where a slot is dropped.
type queue[V any] struct {
	head, tail *entry[V]
	count      int64
	size       int64 // the sum of the entries' sizes
}

func (q *queue[V]) pushHead(e *entry[V]) {
	e.prev, e.next = nil, q.head
	if q.head != nil {
		q.head.prev = e
	} else {
		q.tail = e
	}
	q.head = e
	q.count++
	q.size += e.size
}

func (q *queue[V]) remove(e *entry[V]) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.tail = e.prev
	}
	e.prev, e.next = nil, nil
	q.count--
	q.size -= e.size
}

func (q *queue[V]) moveToHead(e *entry[V]) {
	if q.head != e {
		q.remove(e)
		q.pushHead(e)
	}
}
