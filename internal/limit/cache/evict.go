package cache

import "github.com/sievedb/sievedb/internal/base"

// Evict evicts the value that the hand would evict next of those that may leave, whatever room there is, and reports
// whether there was one. It is for owners that bound something else than the sizes of the values, such as their memory.
// may is called under a lock, so it must be fast. taken is called with the value before anything else has it, and
// onEvict runs as for any value that leaves: if background is set, in a goroutine of its own, for which Close waits.
func (c *Cache[V]) Evict(background bool, may func(*V) bool, taken func(*V)) bool {
	for range c.shards {
		sh := &c.shards[int(c.turn.Add(1))%len(c.shards)]
		sh.mu.Lock()
		e := sh.victimThatMayLocked(c.share(), may)
		if e != nil && background {
			c.leaving.Add(1) // under the lock, which Close takes before it waits
		}
		sh.mu.Unlock()
		if e == nil {
			continue
		}
		c.release(e.size)
		taken(&e.value)
		if !background {
			c.left(e)
			return true
		}
		base.Go(func() {
			defer c.leaving.Done()
			c.left(e)
		})
		return true
	}
	return false
}

// victimThatMayLocked is victimLocked without the values that may not leave. Those it moves to where the hand comes
// last.
func (sh *shard[V]) victimThatMayLocked(share int64, may func(*V) bool) *entry[V] {
	// The hand comes to each value as often as it was used, and once more.
	for range (clockHits + 1) * (sh.probation.count + sh.main.count) {
		e := sh.victimLocked(share)
		if may(&e.value) {
			return sh.evictLocked(e)
		}
		sh.queueOf(e).remove(e)
		e.inMain = true
		sh.main.pushHead(e)
	}
	return nil
}

// HasMore reports whether more than n values that are so are held. It calls is under a lock, as often as it needs to.
func (c *Cache[V]) HasMore(n int, is func(*V) bool) bool {
	for i := range c.shards {
		if n = c.shards[i].countDown(n, is); n < 0 {
			return true
		}
	}
	return false
}

// countDown returns n without the shard's values that are so, or -1 if there are more.
func (sh *shard[V]) countDown(n int, is func(*V) bool) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, q := range []*queue[V]{&sh.probation, &sh.main} {
		for e := q.tail; e != nil && n >= 0; e = e.prev {
			if is(&e.value) {
				n--
			}
		}
	}
	return n
}

// Count returns the number of values held.
func (c *Cache[V]) Count() (n int64) {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		n += sh.probation.count + sh.main.count
		sh.mu.Unlock()
	}
	return n
}
