package cache

// Evict evicts the value that the hand would evict next, whatever room there is, and reports whether there was one.
// It is for owners that bound something else than the sizes of the values, such as their memory. taken is called with
// the value before anything else has it, and onEvict runs as for any value that leaves: if background is set, in a
// goroutine of its own, for which Close waits.
func (c *Cache[V]) Evict(background bool, taken func(*V)) bool {
	for range c.shards {
		sh := &c.shards[int(c.turn.Add(1))%len(c.shards)]
		sh.mu.Lock()
		e := sh.victimLocked(c.share())
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
		go func() {
			defer c.leaving.Done()
			c.left(e)
		}()
		return true
	}
	return false
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
