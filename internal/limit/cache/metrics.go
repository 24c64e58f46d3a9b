package cache

// Metrics has the contents of a Cache and its counters since New. At any time Count = Inserts - Evictions - Drops, and
// onEvict was called, or is about to be, Evictions + Drops + Unkept times.
//
// Hits are not counted: a counter that all readers write would cost more than the
// hit. Inserts + Unkept + Passed are the misses that loaded without an error.
type Metrics struct {
	Capacity  int64 // as given to New, 0 if that was negative
	Charged   int64 // the part of the capacity reserved by Charge
	Size      int64 // total size, as reported by the loads, of the values held now; at most Capacity
	Count     int64 // values held now
	Inserts   int64 // values that were kept
	Evictions int64 // values that were evicted to make room
	Drops     int64 // kept values removed by Drop, DropOne, DropAll or Close
	Unkept    int64 // values that were loaded and not kept
	Passed    int64 // loads for which Pass returned true
}

// Metrics returns the counts at one instant, for which it locks all shards simultaneously.
func (c *Cache[V]) Metrics() Metrics {
	m := Metrics{Capacity: c.capacity.Load(), Charged: c.charged.Load()}
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
