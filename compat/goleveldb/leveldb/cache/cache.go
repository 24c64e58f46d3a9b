// Package cache is a cache with reference counts and a replaceable eviction algorithm. Databases do
// not use it: SieveDB has a block cache of its own. It is here for programs that use it themselves.
package cache

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/syndtr/goleveldb/leveldb/util"
)

// Cacher decides which nodes stay in a cache. It keeps a node by holding a handle of it. Its methods
// are safe for concurrent use.
type Cacher interface {
	Capacity() int
	// SetCapacity changes the capacity, and evicts nodes if that is smaller.
	SetCapacity(capacity int)
	// Promote notes a use of the node.
	Promote(n *Node)
	// Ban evicts the node, and ignores later uses.
	Ban(n *Node)
	// Evict evicts the node.
	Evict(n *Node)
}

// Value is what a cache holds. One that is a util.Releaser is released when it leaves the cache.
type Value interface{}

// Stats are the counts of a cache.
type Stats struct {
	Buckets     int // always 1
	Nodes       int64
	Size        int64
	GrowCount   int32 // always 0
	ShrinkCount int32 // always 0
	HitCount    int64
	MissCount   int64
	SetCount    int64
	DelCount    int64
}

type nodeKey struct{ ns, key uint64 }

// Cache maps pairs of a namespace and a key to values. It is safe for concurrent use.
type Cache struct {
	cacher Cacher // nil: nodes stay while they have handles

	// mu guards the fields below. No code of the user runs under it.
	mu     sync.Mutex
	nodes  map[nodeKey]*Node
	closed bool
	stats  Stats
}

// NewCache returns an empty cache. A nil cacher keeps nothing that has no handle.
func NewCache(cacher Cacher) *Cache {
	return &Cache{cacher: cacher, nodes: map[nodeKey]*Node{}, stats: Stats{Buckets: 1}}
}

// Node is an entry of a cache.
type Node struct {
	cache *Cache
	id    nodeKey

	// fill guards value and size while the value is made.
	fill  sync.Mutex
	value Value
	size  int

	ref atomic.Int32
	// The fields below are guarded by cache.mu. A node whose value is being released is dead. It stays
	// in the cache until that is done and gone is closed: Get must not make a new value before.
	delFuncs []func()
	dead     bool
	gone     chan struct{}

	// CacheData is the cacher's.
	CacheData unsafe.Pointer
}

// NS returns the namespace.
func (n *Node) NS() uint64 { return n.id.ns }

// Key returns the key.
func (n *Node) Key() uint64 { return n.id.key }

// Size returns the size that was given with the value.
func (n *Node) Size() int { return n.size }

// Value returns the value.
func (n *Node) Value() Value { return n.value }

// Ref returns the number of handles.
func (n *Node) Ref() int32 { return n.ref.Load() }

// GetHandle returns another handle. It panics if there is none, because the node may be gone.
func (n *Node) GetHandle() *Handle {
	if n.ref.Add(1) <= 1 {
		panic("leveldb/cache: GetHandle of a node without handles")
	}
	return newHandle(n)
}

// Handle keeps a node in the cache until it is released.
type Handle struct{ n atomic.Pointer[Node] }

func newHandle(n *Node) *Handle {
	h := &Handle{}
	h.n.Store(n)
	return h
}

// Value returns the value, nil after Release.
func (h *Handle) Value() Value {
	if n := h.n.Load(); n != nil {
		return n.value
	}
	return nil
}

// Release gives the handle back. It may be called more than once.
func (h *Handle) Release() {
	if n := h.n.Swap(nil); n != nil {
		n.cache.unref(n, true)
	}
}

// unref gives a reference back. The last one removes the node.
func (c *Cache) unref(n *Node, count bool) {
	if n.ref.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	if n.ref.Load() > 0 || n.dead {
		c.mu.Unlock()
		return
	}
	if count {
		c.stats.DelCount++
	}
	c.removeAndUnlock(n)
}

// removeAndUnlock releases the value of a node, and removes the node. It is called with c.mu, and unlocks it.
func (c *Cache) removeAndUnlock(n *Node) {
	n.dead = true
	n.gone = make(chan struct{})
	c.mu.Unlock()
	if r, ok := n.value.(util.Releaser); ok {
		r.Release()
	}
	n.value = nil

	c.mu.Lock()
	delete(c.nodes, n.id)
	c.stats.Nodes--
	c.stats.Size -= int64(n.size)
	finish := n.delFuncs
	c.mu.Unlock()
	close(n.gone)
	for _, f := range finish {
		f()
	}
}

// find returns the node of a key with a new reference, nil if there is none.
func (c *Cache) find(ns, key uint64, create bool) *Node {
	id := nodeKey{ns, key}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	for n != nil && n.dead && !c.closed {
		c.mu.Unlock()
		<-n.gone
		c.mu.Lock()
		n = c.nodes[id]
	}
	if c.closed {
		return nil
	}
	if n == nil && create {
		n = &Node{cache: c, id: id}
		c.nodes[id] = n
		c.stats.Nodes++
		c.stats.MissCount++
	} else if n == nil {
		c.stats.MissCount++
		return nil
	} else {
		c.stats.HitCount++
	}
	n.ref.Add(1)
	return n
}

// Get returns a handle of the value of a key. If there is none, setFunc makes it; a nil setFunc, or one
// that returns a nil value, makes Get return nil. A closed cache returns nil.
func (c *Cache) Get(ns, key uint64, setFunc func() (size int, value Value)) *Handle {
	n := c.find(ns, key, setFunc != nil)
	if n == nil || !c.load(n, setFunc) {
		return nil
	}
	if c.cacher != nil {
		c.cacher.Promote(n)
	}
	return newHandle(n)
}

// load makes the value of a node that has none. If there still is none, it gives the reference back.
func (c *Cache) load(n *Node, setFunc func() (size int, value Value)) bool {
	n.fill.Lock()
	if n.value == nil && setFunc != nil {
		size, value := setFunc()
		if value != nil {
			n.size, n.value = size, value
			c.mu.Lock()
			c.stats.SetCount++
			c.stats.Size += int64(size)
			c.mu.Unlock()
		}
	}
	loaded := n.value != nil
	n.fill.Unlock()
	if !loaded {
		c.unref(n, false)
	}
	return loaded
}

// Delete removes a key as soon as it has no handle, and then calls delFunc, which may be nil. It
// reports whether the key was present; if not, it calls delFunc at once.
func (c *Cache) Delete(ns, key uint64, delFunc func()) bool {
	n := c.find(ns, key, false)
	if n == nil {
		if delFunc != nil && !c.isClosed() {
			delFunc()
		}
		return false
	}
	if delFunc != nil {
		c.mu.Lock()
		n.delFuncs = append(n.delFuncs, delFunc)
		c.mu.Unlock()
	}
	if c.cacher != nil {
		c.cacher.Ban(n)
	}
	c.unref(n, true)
	return true
}

func (c *Cache) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Evict makes the cacher give a key up, and reports whether the key was present.
func (c *Cache) Evict(ns, key uint64) bool {
	n := c.find(ns, key, false)
	if n == nil {
		return false
	}
	if c.cacher != nil {
		c.cacher.Evict(n)
	}
	c.unref(n, true)
	return true
}

// EvictNS makes the cacher give all keys of a namespace up.
func (c *Cache) EvictNS(ns uint64) { c.evictIf(func(n *Node) bool { return n.id.ns == ns }) }

// EvictAll makes the cacher give all keys up.
func (c *Cache) EvictAll() { c.evictIf(func(*Node) bool { return true }) }

func (c *Cache) evictIf(chosen func(*Node) bool) {
	if c.cacher == nil {
		return
	}
	for _, n := range c.snapshot(false) {
		if chosen(n) {
			c.cacher.Evict(n)
		}
	}
}

// snapshot returns all nodes of an open cache, and closes it if close is set.
func (c *Cache) snapshot(close bool) []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = close
	nodes := make([]*Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	return nodes
}

// Close closes the cache: Get returns nil from now on. With force, all values are released at once,
// also those with handles.
func (c *Cache) Close(force bool) {
	for _, n := range c.snapshot(true) {
		if force {
			n.ref.Store(0)
		}
		if c.cacher != nil {
			c.cacher.Evict(n)
		}
		if force {
			c.discard(n)
		}
	}
}

// discard removes a node, unless the eviction did.
func (c *Cache) discard(n *Node) {
	c.mu.Lock()
	if n.dead {
		c.mu.Unlock()
		return
	}
	c.removeAndUnlock(n)
}

// GetStats returns the counts.
func (c *Cache) GetStats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Nodes returns the number of nodes.
func (c *Cache) Nodes() int { return int(c.GetStats().Nodes) }

// Size returns the size of all nodes.
func (c *Cache) Size() int { return int(c.GetStats().Size) }

// Capacity returns that of the cacher, 0 without one.
func (c *Cache) Capacity() int {
	if c.cacher == nil {
		return 0
	}
	return c.cacher.Capacity()
}

// SetCapacity sets that of the cacher.
func (c *Cache) SetCapacity(capacity int) {
	if c.cacher != nil {
		c.cacher.SetCapacity(capacity)
	}
}

// NamespaceGetter is Get of a cache with the namespace NS.
type NamespaceGetter struct {
	Cache *Cache
	NS    uint64
}

// Get is Cache.Get.
func (g *NamespaceGetter) Get(key uint64, setFunc func() (size int, value Value)) *Handle {
	return g.Cache.Get(g.NS, key, setFunc)
}
