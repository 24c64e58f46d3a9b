package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Admission and eviction:
//
// A value added to a full cache starts in probation, a FIFO queue of a sixteenth of the budget, and always leaves it at
// the end; its slot then remembers that (a ghost). Only a value that is requested again while its slot remembers enters
// the main queue, which is CLOCK over the state. Slots remember about as many evictions as the cache holds entries.
// While the main queue has under seven eighths of the budget, values enter it immediately, so that filling a cache does
// not load values twice.
//
// Adding a value costs a copy and an eviction, which is often wasted. An owner may call Pass before it copies. Pass
// reports that the value should not be added, and the slot remembers that too, in two cases:
//
//   - Nothing is known of the value, and values recently added to probation were not used
//     before the next one came. That is so for lookups of random keys, not for lookups in
//     key order. One in eight is added nevertheless, to see whether that has changed.
//   - The value was requested before, but the hand of the main queue is at a value that was
//     used in its turn. The hand advances by three values, so that unused values are found.
//     If all values are used equally, like the blocks of random keys, none displaces another.
//
// With a cache of a tenth of the blocks, the first rule reduced the processor time of a lookup
// of a random key from 4.6 to 3.7 us. With a cache of nine tenths, the second rule reduced its
// allocations from 0.21 to 0.05 and made it a tenth faster.
//
// Hits in probation deliberately have no effect: Gets in key order touch a block about thirty times within microseconds
// and then never again. Such a scan makes every block look "visited" to SIEVE (NSDI'24) or S3-FIFO (SOSP'23). The
// queues are those of 2Q (VLDB'94), with S3-FIFO's two-bit CLOCK instead of its LRU: the hand counts more than three
// hits as three.
//
// Hit ratio in percent, with 2,000 entries of one size (BenchmarkHitRatio; scans are
// not counted, and touch each block as often as stated, in a row):
//
//	trace                                       LRU  SIEVE  S3-FIFO  this
//	zipf 0.8 over 20 times the cache           35.5   44.6     45.7  46.7
//	zipf 0.99 over 20 times the cache          62.4   69.1     69.5  70.2
//	uniform over twice the cache               50.0   50.1     50.0  50.2
//	loop over 1.2 times the cache               0.0    0.0     71.0  83.6
//	zipf 0.9 and scans, 1 touch                50.2   64.0     64.9  65.8
//	zipf 0.9 and scans, 30 touches             50.4   46.7     52.9  66.1
//	hot set of 0.8 of the cache, long scan, 1  62.8   99.4     99.3  99.6
//	the same, 30 touches                       62.8   54.4     59.5  99.6
//	hot set of 0.6 of the cache that moves     74.3   63.7     74.0  71.9
//
// The last row shows the cost of the second rule: 73.5 without it, but then the loop had 62.0. With SIEVE for the main
// queue, the moving hot set lost 3 points, and one that was replaced completely lost 11: CLOCK is the more stable one.

const (
	// The share of probation in a shard's budget. In simulation, shares from 1/32 to
	// 1/8 differ by under one point; see above for the traces.
	probationDivisor = 16
	// While main has less than share - share/fillDivisor, values skip probation. The gap to probationDivisor ensures
	// that a single eviction from main, which leaves room there, does not admit a scan.
	fillDivisor = 8

	// Slots remember evictions of this many generations, including the current one. A generation is a quarter of the
	// shard's number of entries, but at least minGeneration evictions: each generation costs one mark, which the slots
	// that point to it keep alive.
	ghostGenerations = 4
	minGeneration    = 32

	// shard.useful is a running mean, in which each new value weighs 1/usefulWeight. It is usefulAll times the share of
	// the values added to probation that were used before the next one came. Below usefulEnough, one in passSample of
	// the unknown values is added, to see whether that has changed.
	usefulAll    = 1 << 10
	usefulWeight = 16
	usefulEnough = usefulAll / 8
	passSample   = 8

	// A repeated request that finds the hand at a value in use advances the hand by so many
	// values. With one, a moving hot set is followed too slowly (67 % hits instead of 72 %).
	handSteps = 3

	// A value is hot if it was used hotTimes as often as those that the hand meets, on average over about heatWeight of
	// them, and at least leastHot times. A large form is evicted if it was used less often than they, or less than
	// leastLarge times. Heat is counted in units of 1/heatUnit uses.
	heatUnit   = 1 << 8
	heatWeight = 64
	hotTimes   = 4
	leastHot   = 8
	leastLarge = 4
	// A shard is busy if its heat is at least so many uses. hotTimes times busyUses must be
	// above leastHot, or every shard would be busy.
	busyUses = 4
)

// shard has two queues, the loads under way and the counters, for the slots whose
// addresses belong to it, and a lock that guards them.
type shard[V any] struct {
	mu sync.Mutex

	// probation and main hold each kept entry once. An entry is in a queue exactly as long as its slot points to it.
	probation queue[V]
	main      queue[V]

	// flights has the loads under way. A slot that holds an entry has none.
	flights map[*Slot[V]]*flight[V]
	spare   *flight[V] // a finished one to reuse; may be nil

	// ghosts are the marks of the youngest generations. ghosts[0] is the current one, which
	// markedInGeneration slots have so far.
	ghosts             [ghostGenerations]*entry[V]
	markedInGeneration int64

	// passes are the marks of values not kept because of Pass in the same generations.
	// lastPassed is the slot of the last one.
	passes     [ghostGenerations]*entry[V]
	lastPassed *Slot[V]
	useful     int64 // see usefulAll
	unknown    int64 // requests for unknown values while useful was too low

	heat int64         // uses of a value in a turn of the hand, in units of 1/heatUnit
	hot  atomic.Uint32 // how many uses make a value hot, according to heat

	// inserts = evictions + drops + entries in the queues, whenever mu is free.
	inserts, evictions, drops, unkept, passed int64

	_ [64]byte // keeps the next shard's lock on another cache line
}

// flight is a load under way. A flight for which no goroutine waited is reused.
type flight[V any] struct {
	done chan struct{} // made by the first goroutine that waits; guarded by the shard's lock
	// Written by the loading goroutine before done is closed.
	entry *entry[V] // nil if err is not
	err   error
}

func (sh *shard[V]) sizeLocked() int64 { return sh.probation.size + sh.main.size }

// insertLocked puts e into the slot, which must be empty, and into a queue, which depends
// on the slot's history and on how full the shard is, given its share.
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

// warmLocked updates the heat for a value with that many hits that the hand met.
func (sh *shard[V]) warmLocked(hits uint32) {
	sh.setHeatLocked(sh.heat + (int64(hits)*heatUnit-sh.heat)/heatWeight)
}

// judgeLocked counts whether a value was used before the next was added to probation.
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

// fillingLocked reports whether main has enough room to add values to it immediately.
func (sh *shard[V]) fillingLocked(size, share int64) bool {
	return size <= share-share/fillDivisor-sh.main.size
}

// wantsLocked reports whether a value for the slot should be added.
//
// A value that was requested before should be, once the hand of main is at a value that was not used in its turn. Until
// then each such request advances the hand a little. If all values are used equally, none is worth evicting another.
//
// An unknown value should be, if new values are soon used again. Lookups in key order do that, but lookups of random
// keys hardly ever do; then adding the value would waste memory and an eviction.
func (sh *shard[V]) wantsLocked(s *Slot[V], size, share int64) bool {
	switch {
	case sh.fillingLocked(size, share):
		return true
	case s == sh.lastPassed:
		return true // a request so soon; probation will decide
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
	sh.unknown++
	return sh.unknown%passSample == 0
}

// idleLocked reports whether the value at the hand of main should be evicted: because it was
// not used, or is a large form that was used less than others. If not, it advances the hand.
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

// victimLocked returns the entry that should be evicted next, the last one of its queue, or nil if there is none.
func (sh *shard[V]) victimLocked(share int64) *entry[V] {
	if sh.main.count == 0 || sh.probation.size > share/probationDivisor {
		return sh.probation.tail
	}
	// The number of turns bounds the search if hits race with the hand.
	for turns := clockHits * sh.main.count; turns > 0 && !sh.idleLocked(); turns-- {
	}
	return sh.main.tail
}

// evictLocked evicts the entry that victimLocked has just returned, if any, from its queue and its slot, and returns
// it.
func (sh *shard[V]) evictLocked(e *entry[V]) *entry[V] {
	if e == nil || !e.inMain {
		return sh.evictProbationLocked()
	}
	return sh.evictMainLocked()
}

// evictProbationLocked evicts the oldest value in probation and returns it, or nil if there is none.
func (sh *shard[V]) evictProbationLocked() *entry[V] {
	e := sh.probation.tail
	if e == nil {
		return nil
	}
	sh.removeLocked(e, sh.ghostLocked())
	sh.evictions++
	return e
}

// evictMainLocked evicts the value at the hand of main, which must not be empty, and returns it.
func (sh *shard[V]) evictMainLocked() *entry[V] {
	e := sh.main.tail
	hits := e.state.Load()
	sh.warmLocked(hits)
	mark := (*entry[V])(nil)
	if e.large && hits > 0 {
		mark = sh.ghostLocked() // loaded again in its smaller form, it goes directly to main
	}
	sh.removeLocked(e, mark)
	sh.evictions++
	return e
}

// beginFlightLocked records that the slot's value is being loaded.
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

// endFlightLocked returns the channel on which goroutines wait for the load, or nil if none
// does; then f belongs to the shard again.
func (sh *shard[V]) endFlightLocked(s *Slot[V], f *flight[V]) (done chan struct{}) {
	delete(sh.flights, s)
	if f.done == nil {
		*f = flight[V]{}
		sh.spare = f
		return nil
	}
	return f.done
}

// replaceLocked replaces old, which is in its slot, with e. e takes over its place in the queue and its hits.
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
	old.slot, old.prev, old.next = nil, nil, nil // readers of the value keep nothing else alive
}

// removeLocked removes e from its queue and leaves mark, which may be nil, in its slot. It
// clears e's pointers, so that readers of the value keep nothing else alive.
func (sh *shard[V]) removeLocked(e, mark *entry[V]) {
	sh.queueOf(e).remove(e)
	e.slot.p.Store(mark)
	e.slot = nil
}

// removeAllLocked empties the shard and returns its entries.
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

// ghostLocked returns the mark for a slot whose entry was evicted from probation, or in its large form.
func (sh *shard[V]) ghostLocked() *entry[V] {
	sh.countMarkLocked()
	return sh.ghosts[0]
}

// markPassedLocked records in a slot that its value was not kept because of Pass.
func (sh *shard[V]) markPassedLocked(s *Slot[V]) {
	sh.countMarkLocked()
	sh.lastPassed = s
	s.p.Store(sh.passes[0])
}

// countMarkLocked counts a mark that a slot gets, and begins a new generation if one is due.
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

// remembersLocked reports whether the slot got a mark within the last generations.
func (sh *shard[V]) remembersLocked(s *Slot[V]) bool {
	mark := s.p.Load()
	if mark == nil {
		return false
	}
	return slices.Contains(sh.ghosts[:], mark) || slices.Contains(sh.passes[:], mark)
}

// queue is a doubly linked list of entries. They enter at the head and leave at the tail,
// or from the middle if a slot is dropped.
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
