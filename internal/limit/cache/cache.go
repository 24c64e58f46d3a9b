package cache

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base/errors"
)

const (
	minShare           = 1 << 20 // units of budget that a shard must have; in bytes, about 256 blocks
	shardsPerProcessor = 4
	maxShards          = 64
)

// errLoadPanicked is returned to goroutines that waited for a load that panicked or
// ended its goroutine. The panic itself continues in the goroutine that loaded.
var errLoadPanicked = errors.Sentinel("cache: the load of this value panicked in another goroutine")

// Cache bounds the total size of the values in the slots used with it. Create one with New.
type Cache[V any] struct {
	// Fixed by New.
	shards     []shard[V]
	shardShift uint // hash >> shardShift is the shard's index
	onEvict    func(*V)
	large      func(*V) bool // nil if values have one form
	closedMark *entry[V]
	pool       *Pool // nil: the budget is the cache's own

	shut atomic.Bool // Close was called

	// For a cache in a Pool.
	turn     atomic.Uint32  // chooses the shard for the Pool's hand
	leaving  sync.WaitGroup // values that leave in the background
	chargeMu sync.Mutex     // guards charged against Close

	// used is the size of the values held and of those about to be inserted. Before an insert, a compare-and-swap
	// raises it, within the available room; after a removal it is lowered: 0 <= held <= used <= capacity.
	_    [64]byte // separates it from the fields above, which every miss reads
	used atomic.Int64
	// charged is the part of the budget used elsewhere by the owner. Right after it is
	// raised, or the capacity is reduced, used may exceed the remainder.
	charged  atomic.Int64
	capacity atomic.Int64 // the budget, not below 0
	_        [64]byte
}

// New returns a cache that holds at most capacity, in the unit of the sizes that the
// loads report. With a capacity of 0 or less nothing is kept, and every miss loads.
//
// onEvict, which may be nil, runs exactly once for every value that a load returned without an error: when the value
// leaves the cache or, if it is never kept, before the GetOrLoad that loaded it returns. It runs without any lock of
// the cache, in the goroutine that made the value leave, possibly while readers still use the value. So values that
// must be closed need a reference count; see the example.
func New[V any](capacity int64, onEvict func(*V)) *Cache[V] {
	return newSharded(capacity, shardsFor(capacity, processors()), onEvict)
}

func processors() int { return runtime.GOMAXPROCS(0) }

// Two forms of a value:
//
// A value may have a small form, which costs its readers something at each use, and a large one (NewWithForms). The
// owner loads the large form while there is room and the small one afterwards. Replace restores the large form if a
// value is Hot: since the hand passed it, it was used four times as often as the values that the hand meets were in
// their turn, and at least eight times. So many uses outweigh a miss of the values evicted for it. The hand of the main
// queue evicts a large form that was used less than that average, or less than four times, with a ghost, since it
// should be loaded again in its small form.
//
// Both rules depend on the pressure. Nothing that fits is evicted because of its form, and a value is hot only in
// comparison with others, so uniformly used values stay small. Misses and uses of small forms in percent
// (BenchmarkTwoForms), for 31,000 uniformly used values of 2.4 and 4.4 KB, in rounds of 75,000 uses:
//
//	budget     round 1      round 2      round 3      round 16
//	128 MiB    37.7,  0.0    3.4,  0.1    0.7,  1.9    0.0,  3.3
//	90 MiB     41.6,  6.3   15.6, 32.9    5.7, 54.7    0.0, 67.3
//	64 MiB     50.8, 13.4   23.1, 60.3   13.7, 80.8    9.0, 91.0
//	11 MiB     87.0, 10.0   84.3, 15.7   84.4, 15.6   84.4, 15.6
//
// If making the small form is slow and something cheaper is sufficient at first, Busy reports
// whether new values will be used often enough to justify it.
//
// With a fixed number of eight uses for hot, 90 MiB missed 1.9 % in round 16. With twice the average for large forms to
// stay, zipf 0.8 in 64 MiB missed 3.9 % instead of 5.0 %, but used small forms for 48 % instead of 39 %.

// NewWithForms is New for values that have two forms; large reports whether a value has the larger one. The owner
// should load the smaller form if HasRoom says that the larger one does not fit, and replace it with the larger one
// once it is Hot. In a full cache, large forms must be used more than others to stay.
func NewWithForms[V any](capacity int64, large func(*V) bool, onEvict func(*V)) *Cache[V] {
	c := New(capacity, onEvict)
	c.large = large
	return c
}

// newSharded is New with the given number of shards, a power of two.
func newSharded[V any](capacity int64, shards int, onEvict func(*V)) *Cache[V] {
	c := &Cache[V]{
		shards:     make([]shard[V], shards),
		shardShift: 64,
		onEvict:    onEvict,
		closedMark: newMark[V](stateClosed),
	}
	c.capacity.Store(max(capacity, 0))
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

// shardsFor returns the number of shards: the greatest power of two within the bounds.
func shardsFor(capacity int64, processors int) int {
	n := 1
	for n < maxShards && 2*n <= shardsPerProcessor*processors && capacity/int64(2*n) >= minShare {
		n *= 2
	}
	return n
}

// GetOrLoad returns the slot's value. If there is none, it calls load, which returns a value and its size, at least 1,
// in the unit of the capacity, and keeps the value if possible. A hit allocates nothing. If load called Pass and
// returned Passed for the size, there is no value to keep, and GetOrLoad returns nil.
//
// If several goroutines miss one slot at the same time, one calls its load and the others wait for it. All of them get
// the unwrapped error of load, if any, and nothing is kept. load runs without a lock and may use the cache for other
// slots, but not for this one: it would wait for itself.
//
// The value is not kept if the slot was dropped or the cache was closed, before or
// during the load. It is also not kept if it has no room, because it is larger than
// the capacity or, rarely, because concurrent inserts have reserved all of it.
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
	if f.done == nil { // no goroutine waits for most loads, so most need no channel
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
		if !passed { // otherwise Pass has ended the flight
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
		panic(fmt.Sprintf("cache: a value has size %d; want at least 1", size))
	}
	e := &entry[V]{value: value, size: size}
	e.large = c.large != nil && c.large(&e.value)
	return e
}

// land ends a flight: it keeps the value if possible, and wakes the waiting goroutines.
func (c *Cache[V]) land(home int, s *Slot[V], f *flight[V]) {
	e, sh := f.entry, &c.shards[home]
	// The slot is checked twice: here, to avoid a useless eviction, and under the lock, where the result is final.
	reserved := e != nil && !c.refuses(s) && c.reserve(home, e.size)

	sh.mu.Lock()
	kept := reserved && !c.refuses(s)
	if kept {
		sh.insertLocked(s, e, c.share())
	} else if e != nil {
		sh.unkept++
	}
	done := sh.endFlightLocked(s, f) // no goroutine can begin to wait any more
	sh.mu.Unlock()

	if done != nil {
		close(done)
	}
	if reserved && !kept {
		c.release(e.size)
	}
	if e != nil && !kept {
		c.left(e)
	}
}

// Passed is the size that a load must return after Pass returned true.
const Passed = -1

// Pass reports whether a value of approximately the given size is not worth keeping and no other goroutine waits for
// it. It may be called only during a load, by the goroutine that loads. If it returns true, the load must return Passed
// for the size, and only its caller has the value, so the value need not be copied. Otherwise the load continues as
// usual.
//
// Values are not kept while the cache is full and new values are not used again. The slot remembers the request.
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

// HasRoom reports whether a value of the given size would fit at this moment without an eviction.
func (c *Cache[V]) HasRoom(size int64) bool {
	return size <= c.room()-c.used.Load() && (c.pool == nil || size <= c.pool.free())
}

// room returns the part of the budget that is available for values.
func (c *Cache[V]) room() int64 { return max(c.capacity.Load()-c.charged.Load(), 0) }

// share returns the part of room that a shard has. In a Pool, the cache may count on what it has and
// what is free, and on an equal share.
func (c *Cache[V]) share() int64 {
	room := c.room()
	if c.pool != nil {
		room = min(room, max(c.usage()+c.pool.free(), c.pool.fair())-c.charged.Load())
	}
	return max(room, 0) / int64(len(c.shards))
}

// Charge reserves size of the budget for memory that the owner uses elsewhere, and evicts
// values until both together are within the budget. The total charge may exceed the
// budget; then nothing is kept. A negative size reduces the charge.
func (c *Cache[V]) Charge(size int64) {
	if c.pool == nil {
		c.charged.Add(size)
	} else {
		c.chargeShared(size)
	}
	c.evictOverdraft()
}

// SetCapacity changes the budget, and evicts values until the rest is within it. With 0 or less nothing is kept. The
// number of shards stays: it limits how many goroutines insert at the same time, not what is kept.
func (c *Cache[V]) SetCapacity(capacity int64) {
	if c.pool != nil {
		capacity = min(capacity, c.pool.capacity)
	}
	c.capacity.Store(max(capacity, 0))
	c.evictOverdraft()
}

// evictOverdraft evicts values until the rest is within the budget.
func (c *Cache[V]) evictOverdraft() {
	for c.used.Load() > c.room() {
		if !c.makeRoom(0, c.share()) {
			return // the remainder is reserved by inserts, which will check the room again
		}
	}
	for c.pool != nil && c.pool.free() < 0 && c.pool.makeRoom(c) {
	}
}

// Hot reports whether the slot's value was used much more often, since the hand of its
// queue passed it, than others were in their turn: see hotTimes. That is rare if all
// values are used equally. A hot value may be worth a larger form: see Replace.
func (c *Cache[V]) Hot(s *Slot[V]) bool {
	e := s.p.Load()
	if e == nil {
		return false
	}
	hits := e.state.Load()
	return hits <= maxHits && hits >= c.shards[c.homeOf(s)].hot.Load()
}

// Busy reports whether the values that the hand of the slot's queue meets were used several
// times in their turn on average. Values added now will probably be used as often.
func (c *Cache[V]) Busy(s *Slot[V]) bool {
	return c.shards[c.homeOf(s)].hot.Load() >= hotTimes*busyUses
}

// Replace replaces old, which came from the slot, with another form of the same value,
// and reports whether it did. It does not if the slot holds something else by now, or if
// there is no room for the difference in size, for which it evicts others. The new form
// takes old's place in the order of eviction. onEvict is called once for the new form:
// when it leaves the cache, or here if it is not kept. It is called here for old if that
// is replaced.
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
		c.release(was.size + more - size)
		c.left(was)
		return true
	case reserved:
		c.release(more)
	}
	c.left(e)
	return false
}

// refuses reports whether nothing may be kept in the slot. While the slot's shard is
// locked, a false result stays valid: Drop and Close work under that lock.
func (c *Cache[V]) refuses(s *Slot[V]) bool { return c.shut.Load() || s.closed() }

// reserve reserves size of the budget, and evicts values to make room for it. It fails
// if there is nothing left to evict.
func (c *Cache[V]) reserve(home int, size int64) bool {
	for {
		room, used := c.room(), c.used.Load()
		if size > room {
			return false
		}
		if used <= room-size {
			if c.used.CompareAndSwap(used, used+size) {
				return c.pool == nil || c.reserveShared(home, size)
			}
		} else if !c.makeRoom(home, size) {
			return false
		}
	}
}

// makeRoom evicts one entry: from the shard home that is about to grow by size, if that makes it exceed its share; else
// from a shard that exceeds its share now; else from any. Some shard exceeds its share unless shares were rounded down
// or reservations fill the budget.
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
		e = sh.evictLocked(sh.victimLocked(c.share()))
	}
	sh.mu.Unlock()
	if e == nil {
		return false
	}
	c.release(e.size)
	c.left(e)
	return true
}

// Drop is DropOne for all slots of an owner that is no longer used.
func (c *Cache[V]) Drop(slots []Slot[V]) {
	for i := range slots {
		c.DropOne(&slots[i])
	}
}

// DropOne empties the slot permanently: nothing is kept in it again, so a late reader cannot restore a removed value.
// Such a reader still gets its value: a load that is under way, or that begins later, returns its value (to all waiting
// goroutines) and passes it to onEvict. Dropping a slot twice is harmless.
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
		c.release(e.size)
		c.left(e)
	}
}

// DropAll evicts every value. The slots remain usable, and a load that is under way may keep its value afterwards.
func (c *Cache[V]) DropAll() {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		all := sh.removeAllLocked()
		sh.mu.Unlock()
		for _, e := range all {
			c.release(e.size)
			c.left(e)
		}
	}
}

// Close evicts every value, and nothing is kept from then on: GetOrLoad still works, as
// with a capacity of 0. When Close returns, onEvict has run, or is running in another
// goroutine, for all values that were ever kept. Closing twice is harmless.
func (c *Cache[V]) Close() {
	closed := c.shut.Swap(true)
	c.DropAll()
	if c.pool != nil && !closed {
		c.leavePool()
	}
}

// left notifies the owner that the cache no longer holds the entry's value.
func (c *Cache[V]) left(e *entry[V]) {
	if c.onEvict != nil {
		c.onEvict(&e.value)
	}
}

// homeOf returns the index of the slot's shard. It depends on the slot's address, which
// does not change, since Go's garbage collector does not move objects on the heap.
func (c *Cache[V]) homeOf(s *Slot[V]) int {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / the golden ratio: Fibonacci hashing, Knuth 6.4
	// A shift by 64 is 0: one shard.
	return int(uint64(uintptr(unsafe.Pointer(s))) * golden >> c.shardShift)
}
