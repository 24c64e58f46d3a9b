package share

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/report"
)

// memoryPool is the memory for the memtables of all stores. Half of it is divided into small memtables of one size, two
// for each store that may be open: one to write to while the other is flushed. These are always free for their store,
// so no writer ever waits for another store. The other half is common: stores that fill their memtables get large ones
// from it as long as there is room.
//
// A store that finds too little common memory gets a smaller memtable and continues. It also asks
// another store to flush a common memtable early: the one that fills it the most slowly, in time per
// byte, and only if that is slower than the asking store fills its own. So an idle store gives up its
// memtable as soon as another one can use the memory, and busy stores leave each other in peace.
type memoryPool struct {
	capacity int64
	small    int64            // bytes of a small memtable
	clock    func() time.Time // for tests; nil means time.Now

	garbage atomic.Int64 // bytes of memtables that were flushed since a garbage collection

	// mu guards the fields below, and those of all Memory and Grant values.
	mu        sync.Mutex
	stores    []*Memory
	common    int64 // bytes that may be granted
	used      int64 // of common
	smallUsed int64 // bytes of small memtables that are granted
	overdrawn int64
	asks      uint64
	reduced   uint64
}

const (
	// smallPerStore is how many small memtables a store may have.
	smallPerStore = 2
	// largestPart is the part of the common memory that one memtable may have, as a divisor.
	largestPart = 4
	// askFor is the time for which memory counts as about to be free, after its store was asked to
	// flush it or has begun to. A flush of 8 MiB takes a tenth of it.
	askFor = time.Second
)

func newMemoryPool(capacity int64, maxStores int) memoryPool {
	small := SmallMemtable(capacity, maxStores)
	return memoryPool{capacity: capacity, small: small, common: capacity - smallPerStore*int64(maxStores)*small}
}

// SmallMemtable returns the size in bytes of the memtables that a store always gets.
func SmallMemtable(capacity int64, maxStores int) int64 {
	return capacity / int64(2*smallPerStore*maxStores)
}

// Memory is a store's part of the memory for memtables. A nil Memory grants everything.
type Memory struct {
	pool      *memoryPool
	wanted    chan struct{}
	smallFree int
	grants    []*Grant
	asked     time.Time // when the store was asked to flush; zero if it was not, or has answered
	refused   time.Time // when it last could not fulfil that
	gone      bool
}

// Grant is the memory of one memtable.
type Grant struct {
	of      *Memory
	size    int
	kind    grantKind
	since   time.Time // when it was granted or, if it is retired, retired
	retired bool      // the memtable is being flushed
	ended   bool
}

type grantKind uint8

const (
	grantSmall grantKind = iota
	grantCommon
	grantOverdraft
)

func (p *memoryPool) join() *Memory {
	m := &Memory{pool: p, wanted: make(chan struct{}, 1), smallFree: smallPerStore}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stores = append(p.stores, m)
	return m
}

// leave releases all grants.
func (m *Memory) leave() {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(m.grants) > 0 {
		m.grants[0].endLocked()
	}
	m.gone = true
	p.stores = slices.DeleteFunc(p.stores, func(other *Memory) bool { return other == m })
}

func (p *memoryPool) now() time.Time {
	if p.clock != nil {
		return p.clock()
	}
	return time.Now()
}

// Serve calls yield when the store is asked to flush a memtable from the common memory, until closing is
// closed. yield reports whether the memory is, or will soon be, released.
func (m *Memory) Serve(closing <-chan struct{}, yield func() (bool, error)) {
	for {
		select {
		case <-m.wanted:
			yielded, err := yield()
			m.answered(yielded && err == nil)
		case <-closing:
			return
		}
	}
}

// Room reports whether to call Take for a memtable of need bytes. It is false if a small memtable is
// enough and the store has both: one of them will be free after a flush. Common memory does not count,
// because another store may take it meanwhile.
func (m *Memory) Room(need int) bool {
	if m == nil {
		return true
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.smallFree > 0 || int64(need) > p.small
}

// Take grants memory for a memtable of usual bytes, or less if there is not as much, but of need
// bytes at least. If modest is set it grants no more than a small memtable, or need. The caller
// releases the grant. A nil Memory returns nil.
func (m *Memory) Take(usual, need int, modest bool) *Grant {
	if m == nil {
		return nil
	}
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.gone {
		return &Grant{of: m, size: max(usual, need), ended: true}
	}
	if modest || !m.asked.IsZero() {
		usual = min(usual, int(p.small))
	}
	want := max(usual, need)
	g := &Grant{of: m, size: want, kind: grantCommon, since: p.now()}
	if int64(want) > p.small {
		p.takeCommonLocked(g, need)
	}
	switch {
	case g.size <= int(p.small) && m.smallFree > 0:
		g.kind = grantSmall
		m.smallFree--
		p.smallUsed += p.small
	case int64(g.size) <= p.free():
		p.used += int64(g.size)
	default:
		g.kind = grantOverdraft
		p.overdrawn += int64(g.size)
	}
	m.grants = append(m.grants, g)
	return g
}

// free returns the common memory that is not granted. Overdrafts count: until they are paid back, no store gets more.
func (p *memoryPool) free() int64 { return p.common - p.used - p.overdrawn }

// takeCommonLocked reduces g.size, which is above a small memtable's, to what the common memory has.
// If that is less than it should be, it asks another store for more.
func (p *memoryPool) takeCommonLocked(g *Grant, need int) {
	least := max(need, int(p.small))
	size := max(min(g.size, int(p.common/largestPart)), least)
	wanted := size
	for size > least && int64(size) > p.free() {
		size = max(size/2, least)
	}
	g.size = size
	if int64(size) > p.free() || size < wanted {
		p.reduced++
		p.askLocked(g.of, int64(wanted)-max(p.free(), 0))
	}
}

// askLocked asks a store to flush a memtable early, for r, which lacks so many bytes.
func (p *memoryPool) askLocked(r *Memory, lacking int64) {
	now := p.now()
	own := r.pace(now)
	var slowest *Memory
	slowestPace := own
	for _, m := range p.stores {
		lacking -= m.expected(now, now.Sub(m.asked) < askFor)
		pace := m.commonPace(now)
		// A store that does not answer is not asked again: it would keep others from being asked.
		if m != r && pace > slowestPace && m.asked.IsZero() && now.Sub(m.refused) >= askFor {
			slowest, slowestPace = m, pace
		}
	}
	if lacking <= 0 || slowest == nil || own == 0 {
		return
	}
	p.asks++
	slowest.asked = now
	select {
	case slowest.wanted <- struct{}{}:
	default:
	}
}

// expected returns the common bytes that will soon be free.
func (m *Memory) expected(now time.Time, asked bool) (total int64) {
	for _, g := range m.grants {
		soon := asked
		if g.retired {
			soon = now.Sub(g.since) < askFor
		}
		if soon && g.kind != grantSmall {
			total += int64(g.size)
		}
	}
	return total
}

// pace returns how long the store has had its memtable, in nanoseconds per byte, 0 if it has none.
func (m *Memory) pace(now time.Time) (pace float64) {
	for _, g := range m.grants {
		if !g.retired {
			pace = max(pace, g.pace(now))
		}
	}
	return pace
}

// commonPace is pace for a memtable that the store can give up.
func (m *Memory) commonPace(now time.Time) (pace float64) {
	for _, g := range m.grants {
		if !g.retired && g.kind != grantSmall {
			pace = max(pace, g.pace(now))
		}
	}
	return pace
}

func (g *Grant) pace(now time.Time) float64 {
	return max(float64(now.Sub(g.since)), 1) / float64(max(g.size, 1))
}

// answered ends a request for memory.
func (m *Memory) answered(fulfilled bool) {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	m.asked = time.Time{}
	if !fulfilled {
		m.refused = m.pool.now()
	}
}

// Flushed frees a memtable of so many bytes that was flushed, if that is cheap compared with the
// memtables that all stores have flushed meanwhile; see collect.go.
func (m *Memory) Flushed(bytes int) {
	if m == nil {
		collectFlushed(bytes)
		return
	}
	if collectFlushed(int(m.pool.garbage.Add(int64(bytes)))) {
		m.pool.garbage.Store(0)
	}
}

// Size returns the bytes that were granted: usual for a nil Grant.
func (g *Grant) Size(usual int) int {
	if g == nil {
		return usual
	}
	return g.size
}

// Small reports whether the memory is not common, so that no other store can use it.
func (g *Grant) Small() bool { return g == nil || g.kind == grantSmall }

// Overdraft reports whether there was no memory for the memtable, which should be flushed at once.
func (g *Grant) Overdraft() bool { return g != nil && g.kind == grantOverdraft }

// Retire records that the memtable is being flushed.
func (g *Grant) Retire() {
	if g == nil {
		return
	}
	g.of.pool.mu.Lock()
	defer g.of.pool.mu.Unlock()
	g.retired, g.since = true, g.of.pool.now()
}

// Release returns the memory. More than one call does nothing.
func (g *Grant) Release() {
	if g == nil {
		return
	}
	g.of.pool.mu.Lock()
	defer g.of.pool.mu.Unlock()
	g.endLocked()
}

func (g *Grant) endLocked() {
	if g.ended {
		return
	}
	g.ended = true
	m, p := g.of, g.of.pool
	m.grants = slices.DeleteFunc(m.grants, func(other *Grant) bool { return other == g })
	switch g.kind {
	case grantSmall:
		m.smallFree++
		p.smallUsed -= p.small
	case grantCommon:
		p.used -= int64(g.size)
	case grantOverdraft:
		p.overdrawn -= int64(g.size)
	}
}

func (p *memoryPool) metrics() report.SharedMemtables {
	p.mu.Lock()
	defer p.mu.Unlock()
	return report.SharedMemtables{
		Limit: p.capacity, Used: p.used + p.smallUsed + p.overdrawn, Overdrawn: p.overdrawn, EarlyFlushes: p.asks, Small: p.reduced,
	}
}
