package cache

// Metrics is what a Cache holds and what it did since New. Each number is counted
// where it happens. At any time Count = Inserts - Evictions - Drops, and onEvict
// was called, or is about to be, Evictions + Drops + Unkept times.
//
// Hits are not counted here: a counter that all readers write would cost more than
// the hit. Inserts + Unkept + Passed are the misses that loaded without an error.
type Metrics struct {
	Capacity  int64 // as given to New, 0 if that was negative
	Charged   int64 // of the capacity, what Charge has taken
	Size      int64 // the sum of the sizes, as their loads reported them, of what is held now; never above Capacity
	Count     int64 // values held now
	Inserts   int64 // values that were kept
	Evictions int64 // values that had to make room
	Drops     int64 // kept values that went by Drop, DropOne, DropAll or Close
	Unkept    int64 // values that were loaded and not kept
	Passed    int64 // loads that Pass told not to keep their value
}

// Metrics returns the counts as they are at one instant, for which it locks all
// shards at once.
func (c *Cache[V]) Metrics() Metrics {
	m := Metrics{Capacity: c.capacity, Charged: c.charged.Load()}
	for i := range c.shards {
		c.shards[i].mu.Lock()
	}
	for i := range c.shards {
		sh := &c.shards[i]
		m.Size += sh.sizeLocked()
		m.Count += sh.probation.count + sh.main.count
		m.Inserts += sh.inserts
		m.Evictions += sh.evictions
		m.Drops += sh.drops
		m.Unkept += sh.unkept
		m.Passed += sh.passed
		sh.mu.Unlock()
	}
	return m
}
