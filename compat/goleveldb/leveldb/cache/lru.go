package cache

import (
	"container/list"
	"sync"
	"unsafe"
)

// NewLRU returns a Cacher that keeps the most recently used nodes, up to capacity in size.
func NewLRU(capacity int) Cacher { return &lru{capacity: capacity} }

type lru struct {
	// mu guards the fields below, the lruEntry of each node, and Node.CacheData.
	mu             sync.Mutex
	capacity, used int
	recent         list.List // of *lruEntry; the most recently used one first
}

type lruEntry struct {
	handle *Handle
	size   int
	at     *list.Element
	node   *Node
	banned bool
}

func entryOf(n *Node) *lruEntry { return (*lruEntry)(n.CacheData) }

func (l *lru) Capacity() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.capacity
}

func (l *lru) SetCapacity(capacity int) {
	l.mu.Lock()
	l.capacity = capacity
	evicted := l.shrinkLocked()
	l.mu.Unlock()
	release(evicted)
}

// shrinkLocked evicts nodes until the others fit.
func (l *lru) shrinkLocked() (evicted []*lruEntry) {
	for l.used > l.capacity && l.recent.Len() > 0 {
		e := l.recent.Back().Value.(*lruEntry)
		l.removeLocked(e)
		e.node.CacheData = nil
		evicted = append(evicted, e)
	}
	return evicted
}

func (l *lru) removeLocked(e *lruEntry) {
	l.recent.Remove(e.at)
	l.used -= e.size
}

// release gives handles back. It runs without the lock, because it may call code of the user.
func release(entries []*lruEntry) {
	for _, e := range entries {
		e.handle.Release()
	}
}

func (l *lru) Promote(n *Node) {
	var evicted []*lruEntry
	l.mu.Lock()
	e := entryOf(n)
	switch {
	case e != nil && !e.banned:
		l.recent.MoveToFront(e.at)
	case e == nil && n.Size() <= l.capacity:
		e = &lruEntry{handle: n.GetHandle(), size: n.Size(), node: n}
		e.at = l.recent.PushFront(e)
		n.CacheData = unsafe.Pointer(e)
		l.used += e.size
		evicted = l.shrinkLocked()
	}
	l.mu.Unlock()
	release(evicted)
}

func (l *lru) Ban(n *Node) {
	l.mu.Lock()
	e := entryOf(n)
	n.CacheData = unsafe.Pointer(&lruEntry{node: n, banned: true})
	l.dropAndUnlock(e)
}

func (l *lru) Evict(n *Node) {
	l.mu.Lock()
	e := entryOf(n)
	if e != nil && !e.banned {
		n.CacheData = nil
	}
	l.dropAndUnlock(e)
}

// dropAndUnlock removes an entry, unless it is nil or banned.
func (l *lru) dropAndUnlock(e *lruEntry) {
	if e == nil || e.banned {
		l.mu.Unlock()
		return
	}
	l.removeLocked(e)
	l.mu.Unlock()
	e.handle.Release()
}
