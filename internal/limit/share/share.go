package share

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Options are the totals of a Resources. All must be set.
type Options struct {
	MaxStores    int
	CacheBytes   int64 // 0 or less: there is no block cache
	MaxOpenFiles int
	MemtableSize int64 // bytes of all memtables
	MaxMerges    int   // slots
}

// DefaultMaxOpenFiles keeps all tables of 20 GB open if the system allows it, and never fewer than LevelDB. A quarter
// of the descriptors leaves the others to other stores and to the rest of the program.
func DefaultMaxOpenFiles() int { return min(max(vfs.MaxDescriptors()/4, 1000), 10_000) }

// Resources are what stores share. Its methods may be called from any goroutine.
type Resources struct {
	o      Options
	blocks *cache.Pool
	tables *cache.Pool
	opened *TableMemory // the memory of open tables
	memory memoryPool
	slots  slotPool

	mu     sync.Mutex
	stores int // guarded by mu
}

// New returns a Resources that no store uses.
func New(o Options) *Resources {
	opened := tableMemory(o.CacheBytes)
	return &Resources{
		o: o,
		// Half of a cache follows the use, and half is divided among the stores that are open.
		blocks: cache.NewPool(o.CacheBytes, o.CacheBytes/int64(2*o.MaxStores), false),
		tables: cache.NewPool(int64(o.MaxOpenFiles), int64(o.MaxOpenFiles/(2*o.MaxStores)), true),
		opened: NewTableMemory(opened, opened/int64(2*o.MaxStores), true),
		memory: newMemoryPool(o.MemtableSize, o.MaxStores),
		slots:  slotPool{limit: o.MaxMerges},
	}
}

// tableMemory returns what the filters and indexes of all stores may use of their caches, of which an eighth stays for
// blocks.
func tableMemory(cacheBytes int64) int64 {
	if cacheBytes <= 0 {
		return DefaultTableMemory()
	}
	return cacheBytes - cacheBytes/8
}

// Options returns the totals.
func (r *Resources) Options() Options { return r.o }

// Store is the part of one store.
type Store struct {
	r      *Resources
	memory *Memory
	slots  *Slots
	left   sync.Once
}

// Join returns the part of another store, nil if r is nil. It fails if MaxStores have one.
func (r *Resources) Join() (*Store, error) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == r.o.MaxStores {
		return nil, errors.Newf("sievedb: Options.Resources: %d stores are open with these Resources, as many as ResourcesOptions.MaxStores allows; "+
			"close one, or raise it", r.stores)
	}
	r.stores++
	return &Store{r: r, memory: r.memory.join(), slots: r.slots.join()}, nil
}

// Leave returns all memory and slots of the store, which must not use them any more. The caches that
// it made in the pools leave when they are closed.
func (s *Store) Leave() {
	if s == nil {
		return
	}
	s.left.Do(func() {
		s.memory.leave()
		s.slots.leave()
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		s.r.stores--
	})
}

// Blocks returns the budget of the block caches, nil for a nil Store.
func (s *Store) Blocks() *cache.Pool {
	if s == nil {
		return nil
	}
	return s.r.blocks
}

// Tables returns the budget of open tables, nil for a nil Store.
func (s *Store) Tables() *cache.Pool {
	if s == nil {
		return nil
	}
	return s.r.tables
}

// TableMemory returns the bound of the memory of open tables, nil for a nil Store.
func (s *Store) TableMemory() *TableMemory {
	if s == nil {
		return nil
	}
	return s.r.opened
}

// Memory returns the store's part of the memory for memtables, nil for a nil Store.
func (s *Store) Memory() *Memory {
	if s == nil {
		return nil
	}
	return s.memory
}

// Slots returns the store's part of the compaction slots, nil for a nil Store.
func (s *Store) Slots() *Slots {
	if s == nil {
		return nil
	}
	return s.slots
}

// Trim releases the memory of idle table writers, unless s is nil: that of many idle stores would add up.
func (s *Store) Trim(writers interface{ Trim() }) {
	if s != nil {
		writers.Trim()
	}
}

// Metrics returns the present state.
func (r *Resources) Metrics() *report.ResourcesMetrics {
	blocks, tables := r.blocks.Metrics(), r.tables.Metrics()
	m := &report.ResourcesMetrics{
		Cache:     report.SharedBudget{Limit: blocks.Capacity, Used: blocks.Used, Stores: blocks.Members, TakenFromOthers: blocks.Evictions},
		OpenFiles: report.SharedBudget{Limit: tables.Capacity, Used: tables.Used, Stores: tables.Members, TakenFromOthers: tables.Evictions},
	}
	m.Memtables = r.memory.metrics()
	m.Compactions = r.slots.metrics()
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Stores, m.MaxStores = r.stores, r.o.MaxStores
	return m
}
