package cache

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/errors"
)

const (
	minShare           = 1 << 20 // units of budget that a shard must have; in bytes, some 256 blocks
	shardsPerProcessor = 4
	maxShards          = 64
)

// errLoadPanicked is what those get who waited for a load that panicked, or that
// ended its goroutine. The panic itself goes on in the goroutine that loaded.
var errLoadPanicked = errors.Sentinel("cache: the load of this value panicked in another goroutine")

// Cache bounds what is kept in the slots that are used with it. Make one with New.
type Cache[V any] struct {
	// Fixed by New.
	capacity   int64
	shards     []shard[V]
	shardShift uint // hash >> shardShift is the shard's index
	onEvict    func(*V)
	large      func(*V) bool // nil: none is
	closedMark *entry[V]

	shut atomic.Bool // Close was called

	// used is the size of what is held and of what is about to be inserted. It is
	// raised by a compare-and-swap that keeps it within the room that there is, before
	// the insert, and lowered after a removal: 0 <= held <= used <= capacity.
	_    [64]byte // apart from the fields above, which every miss reads
	used atomic.Int64
	// charged is what the owner holds elsewhere on this budget. Right after it was
	// raised used may be above what it leaves.
	charged atomic.Int64
	_       [64]byte
}

// New makes a cache that holds at most capacity, in the unit of the sizes that
// the loads report. With a capacity of 0 or less nothing is kept, and every miss
// loads.
//
// onEvict, which may be nil, runs exactly once for every value that a load
// returned without an error: when the value leaves the cache, or, if it is never
// kept, before the GetOrLoad that loaded it returns. It runs without any lock of
// the cache, in whichever goroutine made the value leave, possibly while readers
// still hold the value. A value with something to close therefore counts its
// references; see the example.
func New[V any](capacity int64, onEvict func(*V)) *Cache[V] {
	return newSharded(capacity, shardsFor(capacity, runtime.GOMAXPROCS(0)), onEvict)
}

// NewWithForms is New for values that have two forms, of which large tells the
// larger one. The owner loads the smaller form where HasRoom says that the other
// does not fit, and puts the larger one in its place once it is Hot. In a full
// cache the large forms must be used more than others to stay.
func NewWithForms[V any](capacity int64, large func(*V) bool, onEvict func(*V)) *Cache[V] {
	c := New(capacity, onEvict)
	c.large = large
	return c
}

// newSharded is New with the number of shards, a power of two, as its caller wants it.
func newSharded[V any](capacity int64, shards int, onEvict func(*V)) *Cache[V] {
	c := &Cache[V]{
		capacity:   max(capacity, 0),
		shards:     make([]shard[V], shards),
		shardShift: 64,
		onEvict:    onEvict,
		closedMark: newMark[V](stateClosed),
	}
	for n := shards; n > 1; n /= 2 {
		c.shardShift--
	}
	for i := range c.shards {
		c.shards[i].flights = make(map[*Slot[V]]*flight[V])
		c.shards[i].useful = usefulAll
		c.shards[i].setHeatLocked(0)
	}
	return c
}

// shardsFor is the greatest power of two that neither bound forbids.
func shardsFor(capacity int64, processors int) int {
	n := 1
	for n < maxShards && 2*n <= shardsPerProcessor*processors && capacity/int64(2*n) >= minShare {
		n *= 2
	}
	return n
}

// GetOrLoad returns the slot's value; if there is none, it calls load, which
// returns a value and its size, at least 1, in the unit of the capacity, and keeps
// the value if it may. A hit allocates nothing. If load asked Pass and returned
// Passed for the size, there is no value to keep: GetOrLoad returns nil.
//
// Of several goroutines that miss one slot at once, one calls its load and the
// others wait for it. An error of load goes to all of them as it is, and nothing
// is kept. load runs without a lock and may use the cache for other slots, but
// not for this one: it would wait for itself.
//
// The value is not kept if the slot was dropped or the cache closed, before or
// during the load, or if it cannot find room: because it is larger than the
// capacity or, rarely, because concurrent inserts have reserved all of it.
func (c *Cache[V]) GetOrLoad(s *Slot[V], load func() (value V, size int64, err error)) (*V, error) {
	if v := s.Get(); v != nil {
		return v, nil
	}
	home := c.homeOf(s)
	sh := &c.shards[home]
	sh.mu.Lock()
	if v := s.Get(); v != nil { // another goroutine's load landed meanwhile
		sh.mu.Unlock()
		return v, nil
	}
	if f := sh.flights[s]; f != nil {
		return f.waitUnlock(sh)
	}
	f := sh.beginFlightLocked(s)
	sh.mu.Unlock()
	return c.fly(home, s, f, load)
}

// waitUnlock unlocks the shard, and waits for the flight of another goroutine.
func (f *flight[V]) waitUnlock(sh *shard[V]) (*V, error) {
	if f.done == nil { // most loads are waited for by nobody and need no channel
		f.done = make(chan struct{})
	}
	done := f.done
	sh.mu.Unlock()
	<-done
	if f.err != nil {
		return nil, f.err
	}
	return &f.entry.value, nil
}

// fly loads the value of a flight, and lands the flight even if load panics.
func (c *Cache[V]) fly(home int, s *Slot[V], f *flight[V], load func() (V, int64, error)) (*V, error) {
	passed := false
	defer func() {
		if !passed { // else Pass has ended the flight
			c.land(home, s, f)
		}
	}()
	value, size, err := load()
	if size == Passed {
		passed = true
		return nil, err
	}
	if err != nil {
		f.err = err
		return nil, err
	}
	f.entry, f.err = c.newEntry(value, size), nil
	return &f.entry.value, nil
}

func (c *Cache[V]) newEntry(value V, size int64) *entry[V] {
	if size < 1 {
		panic(fmt.Sprintf("cache: a value was given the size %d; it is at least 1", size))
	}
	e := &entry[V]{value: value, size: size}
	e.large = c.large != nil && c.large(&e.value)
	return e
}

// land ends a flight: it keeps the value if it may, and wakes those who wait.
func (c *Cache[V]) land(home int, s *Slot[V], f *flight[V]) {
	e, sh := f.entry, &c.shards[home]
	// A dropped slot is looked at twice: here so that nothing is evicted in vain,
	// and under the lock, where it is certain.
	reserved := e != nil && !c.refuses(s) && c.reserve(home, e.size)

	sh.mu.Lock()
	kept := reserved && !c.refuses(s)
	if kept {
		sh.insertLocked(s, e, c.share())
	} else if e != nil {
		sh.unkept++
	}
	done := sh.endFlightLocked(s, f) // nobody can begin to wait any more
	sh.mu.Unlock()

	if done != nil {
		close(done)
	}
	if reserved && !kept {
		c.used.Add(-e.size)
	}
	if e != nil && !kept {
		c.left(e)
	}
}

// Passed is the size that a load returns after Pass told it that its value would
// not be kept.
const Passed = -1

// Pass is for a load that is under way, by the goroutine that does it: it says
// whether a value of the given size, as far as that is known, is not worth keeping, and no other
// goroutine waits for it. Then the load must return Passed for the size, and what it
// loaded is its caller's alone, so that it need not be in memory of its own. After
// any other answer the load goes on as without.
//
// Values are passed by while the cache is full and what is new in it is not used
// again; the slot remembers that it was asked for.
func (c *Cache[V]) Pass(s *Slot[V], size int64) bool {
	if c.HasRoom(size) && !c.refuses(s) {
		return false
	}
	sh := &c.shards[c.homeOf(s)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.flights[s]
	if f.done != nil {
		return false
	}
	if !c.refuses(s) {
		if size <= c.room() && sh.wantsLocked(s, size, c.share()) {
			return false
		}
		sh.markPassedLocked(s)
	}
	sh.endFlightLocked(s, f)
	sh.passed++
	return true
}

// HasRoom says whether a value of the given size would fit at this moment without
// an eviction.
func (c *Cache[V]) HasRoom(size int64) bool { return size <= c.room()-c.used.Load() }

// room is what the budget leaves for values.
func (c *Cache[V]) room() int64 { return max(c.capacity-c.charged.Load(), 0) }

// share is the part of it that a shard has.
func (c *Cache[V]) share() int64 { return c.room() / int64(len(c.shards)) }

// Charge takes size out of the budget for what the owner of the values holds elsewhere, and
// evicts as much, so that the two together stay within it. It may be more than the
// budget: then nothing is kept. A negative size gives back.
func (c *Cache[V]) Charge(size int64) {
	c.charged.Add(size)
	for c.used.Load() > c.room() {
		if !c.makeRoom(0, c.share()) {
			return // what is left is reserved, and goes by the room there is then
		}
	}
}

// Hot says whether the slot's value was used much more often since the hand of its
// queue passed it than others were in their turn: see hotShare. Where all values
// are of one heat that is rare. A hot value may be worth a larger form: see Replace.
func (c *Cache[V]) Hot(s *Slot[V]) bool {
	e := s.p.Load()
	if e == nil {
		return false
	}
	hits := e.state.Load()
	return hits <= maxHits && hits >= c.shards[c.homeOf(s)].hot.Load()
}

// Busy says whether the values that the hand of the slot's queue meets were used several times
// in their turn, on the average: what comes in now will be used as often, as far as one can tell.
func (c *Cache[V]) Busy(s *Slot[V]) bool {
	return c.shards[c.homeOf(s)].hot.Load() >= hotTimes*busyUses
}

// Replace puts another form of the same value in the place of old, which the
// slot gave, and says whether it did: not if the slot holds something else by
// now, nor if there is no room for what the new form is larger by. Others are
// evicted to make that room. The new form has old's place in the order of
// eviction. Like a value that is loaded, it passes to onEvict once: when it leaves
// the cache, or here if it is not kept; so does old where it was replaced.
func (c *Cache[V]) Replace(s *Slot[V], old *V, value V, size int64) bool {
	e := c.newEntry(value, size)
	was := s.held()
	if was == nil || &was.value != old {
		c.left(e)
		return false
	}
	home := c.homeOf(s)
	sh, more := &c.shards[home], max(size-was.size, 0)
	reserved := c.reserve(home, more)
	sh.mu.Lock()
	replaced := reserved && s.p.Load() == was
	if replaced {
		sh.replaceLocked(was, e)
	}
	sh.mu.Unlock()
	switch {
	case replaced:
		c.used.Add(size - was.size - more)
		c.left(was)
		return true
	case reserved:
		c.used.Add(-more)
	}
	c.left(e)
	return false
}

// refuses says whether nothing may be kept in the slot. While the slot's shard is
// locked the answer no stays true: Drop and Close work under that lock.
func (c *Cache[V]) refuses(s *Slot[V]) bool { return c.shut.Load() || s.closed() }

// reserve takes size out of the budget, and evicts to make room for it. It fails
// if there is nothing left to evict.
func (c *Cache[V]) reserve(home int, size int64) bool {
	for {
		room, used := c.room(), c.used.Load()
		if size > room {
			return false
		}
		if used <= room-size {
			if c.used.CompareAndSwap(used, used+size) {
				return true
			}
		} else if !c.makeRoom(home, size) {
			return false
		}
	}
}

// makeRoom evicts one entry. The shard that is about to grow gives first, if that
// takes it above its share; else one that is above its share now, and some are,
// unless shares were rounded down or reservations fill the budget; else any.
func (c *Cache[V]) makeRoom(home int, size int64) bool {
	if c.evictAbove(&c.shards[home], c.share()-size) {
		return true
	}
	for _, limit := range []int64{c.share(), 0} {
		for i := range c.shards {
			if c.evictAbove(&c.shards[(home+i)%len(c.shards)], limit) {
				return true
			}
		}
	}
	return false
}

// evictAbove evicts one entry of a shard that holds more than limit.
func (c *Cache[V]) evictAbove(sh *shard[V], limit int64) bool {
	var e *entry[V]
	sh.mu.Lock()
	if sh.sizeLocked() > limit {
		e = sh.victimLocked(c.share())
	}
	sh.mu.Unlock()
	if e == nil {
		return false
	}
	c.used.Add(-e.size)
	c.left(e)
	return true
}

// Drop is DropOne for each of the slots of an owner that goes away.
func (c *Cache[V]) Drop(slots []Slot[V]) {
	for i := range slots {
		c.DropOne(&slots[i])
	}
}

// DropOne empties the slot for good: nothing is kept in it ever again, so that
// what is gone does not come back through a reader that is late. Such a reader
// still gets its value: a load that is under way, or that begins later, hands its
// value out (to all who wait for it) and passes it to onEvict. To drop a slot
// twice is harmless.
func (c *Cache[V]) DropOne(s *Slot[V]) {
	sh := &c.shards[c.homeOf(s)]
	sh.mu.Lock()
	e := s.held()
	if e != nil {
		sh.removeLocked(e, nil)
		sh.drops++
	}
	s.p.Store(c.closedMark)
	sh.mu.Unlock()
	if e != nil {
		c.used.Add(-e.size)
		c.left(e)
	}
}

// DropAll evicts every value. The slots can be used on, and a load that is under
// way may keep its value afterwards.
func (c *Cache[V]) DropAll() {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		all := sh.removeAllLocked()
		sh.mu.Unlock()
		for _, e := range all {
			c.used.Add(-e.size)
			c.left(e)
		}
	}
}

// Close evicts every value, and nothing is kept from then on: GetOrLoad still
// works, as with a capacity of 0. When Close returns, onEvict ran or is running in
// another goroutine for all that was ever kept. To close twice is harmless.
func (c *Cache[V]) Close() {
	c.shut.Store(true)
	c.DropAll()
}

// left tells the owner that the cache holds the entry's value no more.
func (c *Cache[V]) left(e *entry[V]) {
	if c.onEvict != nil {
		c.onEvict(&e.value)
	}
}

// homeOf is the index of the slot's shard. The collector of Go's heap does not
// move what lives there, and the cache holds no slot that does not.
func (c *Cache[V]) homeOf(s *Slot[V]) int {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / the golden ratio: Fibonacci hashing, Knuth 6.4
	// A shift by 64 is 0: one shard.
	return int(uint64(uintptr(unsafe.Pointer(s))) * golden >> c.shardShift)
}
