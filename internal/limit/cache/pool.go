package cache

import (
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// Pool is a budget that several caches share, such as those of many stores in a process. Each cache keeps its own
// queues, locks and history, so closing or misusing one does not touch the others. What they hold together is bounded.
//
// A cache that needs room in a full Pool makes the hand of the Pool advance. The hand visits the caches in turn and
// moves through a part of each one's main queue in proportion to the cache's size. It evicts a value that was not used
// in its turn, as the hand of one large cache would. So memory moves from caches that are not used to those that are.
// Two rules protect a cache from its neighbours: what it holds up to its floor is never evicted for another, and one
// whose probation is full evicts from that first, so that a scan displaces only itself.
//
// A Pool's methods may be called from any goroutine. No lock of a cache is taken while mu is held.
type Pool struct {
	capacity, floor int64
	background      bool

	_    [64]byte
	used atomic.Int64 // the sum of what the caches have reserved and charged
	_    [64]byte

	count     atomic.Int64  // of members
	evictions atomic.Uint64 // of values of other members than the one that needed room

	// mu guards the fields below.
	mu      sync.Mutex
	members []member
	hand    int
	left    int64 // of what the hand passes in the present member
}

// member is a cache as its Pool sees it.
type member interface {
	// usage returns what the cache holds of the Pool.
	usage() int64
	// step advances the hand of one of the cache's queues by a value, and returns that one's size, 0
	// if there is none. It evicts the value if it was not used, or if forced. If it does so for another
	// cache, the value leaves in the background, if the Pool says so.
	step(forced, forAnother bool) (passed int64, evicted bool)
}

const (
	// handParts is the number of visits in which the Pool's hand passes all of a cache.
	handParts = 64
	// secondChances bounds the values that one eviction examines. After that it evicts one that was used.
	secondChances = 32
)

// NewPool returns a Pool of that capacity, in the unit of its caches. What a cache holds up to floor, or up to an equal
// share if that is less, is not evicted for others. If background is set, values that leave a cache because of another
// one are passed to onEvict in a goroutine of their own: a cache never waits for the owner of another. The capacity
// then bounds the values held, not those that are about to be closed.
func NewPool(capacity, floor int64, background bool) *Pool {
	return &Pool{capacity: max(capacity, 0), floor: floor, background: background}
}

// NewInPool is New for a cache that has a part of a Pool. It never holds more than capacity, nor
// more than the Pool. large may be nil; see NewWithForms. The cache leaves the Pool in Close.
func NewInPool[V any](p *Pool, capacity int64, large func(*V) bool, onEvict func(*V)) *Cache[V] {
	const usualMembers = 16 // a cache with fewer shards than its size deserves only locks more often
	c := newSharded(min(capacity, p.capacity), shardsFor(p.capacity/usualMembers, processors()), onEvict)
	c.large, c.pool = large, p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, c)
	p.count.Add(1)
	return c
}

// leave removes a cache, which has released all it had.
func (p *Pool) leave(c member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.members {
		if m == c {
			p.members = append(p.members[:i:i], p.members[i+1:]...)
			p.count.Add(-1)
			p.left = 0
			return
		}
	}
}

// PoolMetrics is the present state of a Pool.
type PoolMetrics struct {
	Capacity, Used int64
	Members        int
	// Evictions counts the values evicted from one cache because another one needed room.
	Evictions uint64
}

// Metrics returns the present state. The numbers are not read at the same instant.
func (p *Pool) Metrics() PoolMetrics {
	return PoolMetrics{
		Capacity: p.capacity, Used: p.used.Load(), Members: int(p.count.Load()), Evictions: p.evictions.Load(),
	}
}

// free returns what no cache has, below 0 while charges exceed the capacity.
func (p *Pool) free() int64 { return p.capacity - p.used.Load() }

// fair returns an equal share.
func (p *Pool) fair() int64 { return p.capacity / max(p.count.Load(), 1) }

// safe returns what a cache may hold without losing it to others.
func (p *Pool) safe() int64 { return min(p.floor, p.fair()) }

// reserve takes size from what is free, and reports whether there was as much.
func (p *Pool) reserve(size int64) bool {
	for {
		used := p.used.Load()
		if used > p.capacity-size {
			return false
		}
		if p.used.CompareAndSwap(used, used+size) {
			return true
		}
	}
}

// makeRoom evicts a value of some cache for own. It reports false if no cache has anything to evict above its floor.
func (p *Pool) makeRoom(own member) bool {
	for steps := 0; steps < secondChances+2*int(p.count.Load()); steps++ {
		m := p.atHand()
		if m == nil {
			return false
		}
		passed, evicted := m.step(steps >= secondChances, m != own)
		p.pass(m, passed)
		if evicted {
			if m != own {
				p.evictions.Add(1)
			}
			return true
		}
	}
	return false
}

// atHand returns the cache that the hand is in, nil if all are at their floors.
func (p *Pool) atHand() member {
	floor := p.safe()
	p.mu.Lock()
	defer p.mu.Unlock()
	for range len(p.members) + 1 {
		if p.left > 0 && p.hand < len(p.members) && p.members[p.hand].usage() > floor {
			return p.members[p.hand]
		}
		if p.hand++; p.hand >= len(p.members) {
			p.hand = 0
		}
		if p.hand < len(p.members) {
			p.left = max(1, (p.members[p.hand].usage()-floor)/handParts)
		}
	}
	return nil
}

// pass records that the hand has passed so much of m. If m has nothing more, it leaves m.
func (p *Pool) pass(m member, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hand >= len(p.members) || p.members[p.hand] != m {
		return
	}
	p.left -= size
	if size == 0 {
		p.left = 0
	}
}

// usage is member.usage.
func (c *Cache[V]) usage() int64 { return c.used.Load() + c.charged.Load() }

// step is member.step.
func (c *Cache[V]) step(forced, forAnother bool) (passed int64, evicted bool) {
	for range c.shards {
		sh := &c.shards[int(c.turn.Add(1))%len(c.shards)]
		sh.mu.Lock()
		passed, e := sh.stepLocked(c.share(), forced)
		if e != nil && forAnother && c.pool.background {
			c.leaving.Add(1) // under the lock, which Close takes before it waits
		}
		sh.mu.Unlock()
		if e == nil && passed > 0 {
			return passed, false
		}
		if e == nil {
			continue
		}
		c.release(e.size)
		if forAnother && c.pool.background {
			base.Go(func() {
				defer c.leaving.Done()
				c.left(e)
			})
		} else {
			c.left(e)
		}
		return passed, true
	}
	return 0, false
}

// stepLocked advances the shard's hand by one value, and evicts it if it was not used or if forced.
func (sh *shard[V]) stepLocked(share int64, forced bool) (passed int64, evicted *entry[V]) {
	if sh.main.count == 0 || sh.probation.size > share/probationDivisor {
		e := sh.evictProbationLocked()
		if e == nil {
			return 0, nil
		}
		return e.size, e
	}
	passed = sh.main.tail.size
	if !sh.idleLocked() && !forced {
		return passed, nil
	}
	return passed, sh.evictMainLocked()
}

// reserveShared reserves size of the Pool for a value that the cache itself has room for.
func (c *Cache[V]) reserveShared(home int, size int64) bool {
	for !c.pool.reserve(size) {
		scanned := c.usage() > c.pool.safe() && c.evictScanned(&c.shards[home])
		if size > c.pool.capacity || !scanned && !c.pool.makeRoom(c) {
			c.used.Add(-size)
			return false
		}
	}
	return true
}

// evictScanned evicts a value from probation, if that has more than its part of the shard.
func (c *Cache[V]) evictScanned(sh *shard[V]) bool {
	var e *entry[V]
	sh.mu.Lock()
	if sh.probation.size > c.share()/probationDivisor {
		e = sh.evictProbationLocked()
	}
	sh.mu.Unlock()
	if e == nil {
		return false
	}
	c.release(e.size)
	c.left(e)
	return true
}

// release returns a part of the budget that was reserved.
func (c *Cache[V]) release(size int64) {
	c.used.Add(-size)
	if c.pool != nil {
		c.pool.used.Add(-size)
	}
}

// chargeShared adds a charge to the cache and to its Pool, until the cache is closed.
func (c *Cache[V]) chargeShared(size int64) {
	c.chargeMu.Lock()
	defer c.chargeMu.Unlock()
	if !c.shut.Load() {
		c.charged.Add(size)
		c.pool.used.Add(size)
	}
}

// leavePool ends the charges, which their owners may not withdraw any more, and waits for values
// that leave in the background. The cache is empty and closed.
func (c *Cache[V]) leavePool() {
	c.chargeMu.Lock()
	c.pool.used.Add(-c.charged.Swap(0))
	c.chargeMu.Unlock()
	c.pool.leave(c)
	c.leaving.Wait()
}
