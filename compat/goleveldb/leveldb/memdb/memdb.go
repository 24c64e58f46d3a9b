// Package memdb is a sorted map in memory. Databases do not use it; it is here for programs that use it themselves.
package memdb

import (
	"math/rand/v2"
	"sync"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Errors to compare with ==.
var (
	ErrNotFound     = errors.ErrNotFound
	ErrIterReleased = errors.New("leveldb/memdb: iterator released")
)

// maxHeight suits 4^12 entries.
const maxHeight = 12

// node is an entry of the skiplist. A deleted one keeps its successors, for iterators that are at it.
type node struct {
	key, value []byte
	next       []*node
}

// DB is a sorted map in memory. It is safe for concurrent use.
type DB struct {
	cmp comparer.BasicComparer

	// mu guards the fields below, and all nodes.
	mu   sync.RWMutex
	head node
	n    int
	size int
	// capacity and appended are the size of a buffer for keys and values to which each Put appends.
	// Here they only answer Capacity and Free.
	capacity, appended int
}

// New returns an empty map. capacity is the number that Capacity returns while it suffices.
func New(cmp comparer.BasicComparer, capacity int) *DB {
	return &DB{cmp: cmp, capacity: capacity, head: node{next: make([]*node, maxHeight)}}
}

// findGE returns the first node whose key is not before key, nil if there is none. If before is not
// nil, it gets the last node before that on each height.
func (d *DB) findGE(key []byte, before *[maxHeight]*node) *node {
	at := &d.head
	for h := maxHeight - 1; ; h-- {
		for at.next[h] != nil && d.cmp.Compare(at.next[h].key, key) < 0 {
			at = at.next[h]
		}
		if before != nil {
			before[h] = at
		}
		if h == 0 {
			return at.next[0]
		}
	}
}

// findLast returns the last node for which all its predecessors and itself are before, nil if there is none.
func (d *DB) findLast(before func(*node) bool) *node {
	at := &d.head
	for h := maxHeight - 1; h >= 0; h-- {
		for at.next[h] != nil && before(at.next[h]) {
			at = at.next[h]
		}
	}
	if at == &d.head {
		return nil
	}
	return at
}

func (d *DB) equal(n *node, key []byte) bool { return n != nil && d.cmp.Compare(n.key, key) == 0 }

// Put writes value under key. It copies both.
func (d *DB) Put(key []byte, value []byte) error {
	copied := make([]byte, len(key)+len(value))
	copy(copied, key)
	copy(copied[len(key):], value)
	key, value = copied[:len(key):len(key)], copied[len(key):]

	d.mu.Lock()
	defer d.mu.Unlock()
	d.appended += len(copied)
	d.capacity = max(d.capacity, d.appended)
	var before [maxHeight]*node
	if n := d.findGE(key, &before); d.equal(n, key) {
		d.size += len(value) - len(n.value)
		n.key, n.value = key, value
		return nil
	}
	height := 1
	for height < maxHeight && rand.Uint32()%4 == 0 {
		height++
	}
	n := &node{key: key, value: value, next: make([]*node, height)}
	for h := range height {
		n.next[h] = before[h].next[h]
		before[h].next[h] = n
	}
	d.n++
	d.size += len(copied)
	return nil
}

// Delete removes key, or returns ErrNotFound.
func (d *DB) Delete(key []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var before [maxHeight]*node
	n := d.findGE(key, &before)
	if !d.equal(n, key) {
		return ErrNotFound
	}
	for h := range n.next {
		before[h].next[h] = n.next[h]
	}
	d.n--
	d.size -= len(n.key) + len(n.value)
	return nil
}

// Contains reports whether key has a value.
func (d *DB) Contains(key []byte) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.equal(d.findGE(key, nil), key)
}

// Get returns the value of key, or ErrNotFound. The caller must not change it.
func (d *DB) Get(key []byte) (value []byte, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if n := d.findGE(key, nil); d.equal(n, key) {
		return n.value, nil
	}
	return nil, ErrNotFound
}

// Find returns the first pair whose key is not before key, or ErrNotFound. The caller must not change the slices.
func (d *DB) Find(key []byte) (rkey, value []byte, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if n := d.findGE(key, nil); n != nil {
		return n.key, n.value, nil
	}
	return nil, nil, ErrNotFound
}

// Capacity returns the size of the buffer for keys and values.
func (d *DB) Capacity() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.capacity
}

// Free returns what is left of Capacity.
func (d *DB) Free() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.capacity - d.appended
}

// Size returns the number of bytes of all keys and values.
func (d *DB) Size() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.size
}

// Len returns the number of entries.
func (d *DB) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.n
}

// Reset removes all entries.
func (d *DB) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.head.next)
	d.n, d.size, d.appended = 0, 0, 0
}

// NewIterator returns an iterator over the keys in slice; nil means all. It shows the map as it is at each movement.
func (d *DB) NewIterator(slice *util.Range) iterator.Iterator {
	i := &dbIter{d: d}
	if slice != nil {
		i.slice = *slice
	}
	return i
}

type dbIter struct {
	util.BasicReleaser
	d          *DB
	slice      util.Range
	at         *node // nil: before the first or, if atEnd is set, after the last
	atEnd      bool
	key, value []byte
	err        error
}

// move sets the position that find returns, if that is within the range.
func (i *dbIter) move(forward bool, find func() *node) bool {
	if i.Released() {
		i.err = ErrIterReleased
		return false
	}
	i.d.mu.RLock()
	defer i.d.mu.RUnlock()
	n := find()
	if n != nil && (i.slice.Start != nil && i.d.cmp.Compare(n.key, i.slice.Start) < 0 ||
		i.slice.Limit != nil && i.d.cmp.Compare(n.key, i.slice.Limit) >= 0) {
		n = nil
	}
	i.at, i.atEnd, i.key, i.value = n, forward, nil, nil
	if n != nil {
		i.key, i.value = n.key, n.value
	}
	return n != nil
}

func (i *dbIter) First() bool {
	return i.move(true, func() *node { return i.d.findGE(i.slice.Start, nil) })
}

func (i *dbIter) Last() bool {
	return i.move(false, func() *node {
		return i.d.findLast(func(n *node) bool { return i.slice.Limit == nil || i.d.cmp.Compare(n.key, i.slice.Limit) < 0 })
	})
}

func (i *dbIter) Seek(key []byte) bool {
	return i.move(true, func() *node {
		if i.slice.Start != nil && i.d.cmp.Compare(key, i.slice.Start) < 0 {
			key = i.slice.Start
		}
		return i.d.findGE(key, nil)
	})
}

func (i *dbIter) Next() bool {
	switch {
	case i.at != nil:
		return i.move(true, func() *node { return i.at.next[0] })
	case i.atEnd && !i.Released():
		return false
	}
	return i.First()
}

func (i *dbIter) Prev() bool {
	switch {
	case i.at != nil:
		return i.move(false, func() *node {
			return i.d.findLast(func(n *node) bool { return i.d.cmp.Compare(n.key, i.key) < 0 })
		})
	case !i.atEnd && !i.Released():
		return false
	}
	return i.Last()
}

func (i *dbIter) Valid() bool   { return i.at != nil }
func (i *dbIter) Key() []byte   { return i.key }
func (i *dbIter) Value() []byte { return i.value }
func (i *dbIter) Error() error  { return i.err }

func (i *dbIter) Release() {
	i.at, i.key, i.value = nil, nil, nil
	i.BasicReleaser.Release()
}
