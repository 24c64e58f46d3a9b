package share

import (
	"sync"
	"sync/atomic"
)

// TableMemory bounds the memory of the open tables of one store, or of several that share it. Each store counts what
// its tables use, whether its cache still has them or only iterators do. A store that has opened a table calls Settle,
// which closes tables of the store that uses most until the rest is within the limit.
type TableMemory struct {
	limit, used atomic.Int64
	floor       int64 // a store whose tables use no more than this closes none for others
	// shared says that several stores use it. Then the files of tables are closed in the background, so that no store
	// waits for another.
	shared bool

	// mu guards members, and is held while tables are chosen.
	mu      sync.Mutex
	members []*TablePart
}

// NewTableMemory returns a bound of limit bytes, which is at least 1. If it is shared, each store keeps floor bytes
// even while others cannot close the tables that they have, because iterators need them.
func NewTableMemory(limit, floor int64, shared bool) *TableMemory {
	m := &TableMemory{floor: floor, shared: shared}
	m.limit.Store(max(limit, 1))
	return m
}

// TablePart is the part of a TableMemory that one store has. Its methods may be called from any goroutine.
type TablePart struct {
	of    *TableMemory
	bytes atomic.Int64 // changed under mu
	mu    sync.Mutex   // taken after TableMemory.mu
	left  bool         // Leave was called; guarded by mu
	// evict closes a table of the store, in the background if asked. It returns false if it must keep those it has.
	evict func(background bool) bool
}

// Join returns the part of a store.
func (m *TableMemory) Join(evict func(background bool) bool) *TablePart {
	p := &TablePart{of: m, evict: evict}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = append(m.members, p)
	return p
}

// Add counts memory that tables of the store use from now on or, below 0, do not use any more.
func (p *TablePart) Add(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes.Add(bytes)
	if !p.left {
		p.of.used.Add(bytes)
	}
}

// Bytes returns the memory of the store's tables.
func (p *TablePart) Bytes() int64 { return p.bytes.Load() }

// Limit returns the bound.
func (p *TablePart) Limit() int64 { return p.of.limit.Load() }

// HasRoom reports whether tables of so many bytes more are within the limit.
func (p *TablePart) HasRoom(bytes int64) bool { return p.of.used.Load()+bytes <= p.of.limit.Load() }

// SetLimit changes the bound, and closes tables until the rest is within it.
func (p *TablePart) SetLimit(limit int64) {
	p.of.limit.Store(max(limit, 1))
	p.Settle()
}

// Settle closes tables until the rest is within the limit, or no store can close one or has to. The caller holds no
// lock that the closing of a file needs.
func (p *TablePart) Settle() {
	m := p.of
	if m.used.Load() <= m.limit.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var stuck map[*TablePart]bool
	for m.used.Load() > m.limit.Load() {
		var most *TablePart
		for _, q := range m.members {
			if !stuck[q] && q.Bytes() > m.floor && (most == nil || q.Bytes() > most.Bytes()) {
				most = q
			}
		}
		if most == nil {
			return
		}
		if !most.evict(m.shared) {
			if stuck == nil {
				stuck = make(map[*TablePart]bool)
			}
			stuck[most] = true
		}
	}
}

// Leave ends the part: what its tables still use counts for their store only.
func (p *TablePart) Leave() {
	m := p.of
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, q := range m.members {
		if q == p {
			m.members = append(m.members[:i:i], m.members[i+1:]...)
			p.leave()
			return
		}
	}
}

func (p *TablePart) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.of.used.Add(-p.bytes.Load())
}
