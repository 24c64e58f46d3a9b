package memtable

import "github.com/sievedb/sievedb/internal/base"

// Iter is a memtable's base.Iterator. Each movement sees every entry whose Add returned before the movement began, and
// perhaps later ones; callers that read at a snapshot compare sequence numbers. Beyond the contract, the slices of Key
// and Value stay valid after the next movement and after Close, because nothing in the arena moves. Err always returns
// nil.
//
// A new Iter is not at an entry, and neither is one whose last movement returned false: then call First, Last or a
// seek. Next and Prev may be called only while it is Valid.
type Iter struct {
	nodes
	m    *Memtable
	node uint32 // end: not at an entry
}

var _ base.Iterator = (*Iter)(nil)

// NewIter returns an iterator that is not positioned.
func (m *Memtable) NewIter() *Iter { return &Iter{nodes: m.nodes, m: m} }

// Memtable returns the memtable that it iterates over.
func (it *Iter) Memtable() *Memtable { return it.m }

// First implements base.Iterator.
func (it *Iter) First() bool {
	it.node = it.next(end, 0).Load()
	return it.node != end
}

// Last implements base.Iterator.
func (it *Iter) Last() bool {
	it.node = it.nearestBefore(end)
	return it.node != end
}

// SeekGE implements base.Iterator.
func (it *Iter) SeekGE(ikey []byte) bool {
	t := it.m.seekTarget(ikey)
	_, it.node = it.m.search(&t)
	return it.node != end
}

// SeekLT implements base.Iterator.
func (it *Iter) SeekLT(ikey []byte) bool {
	t := it.m.seekTarget(ikey)
	it.node, _ = it.m.search(&t)
	return it.node != end
}

// Next implements base.Iterator.
func (it *Iter) Next() bool {
	it.node = it.next(it.node, 0).Load()
	return it.node != end
}

// Prev implements base.Iterator.
func (it *Iter) Prev() bool {
	it.node = it.nearestBefore(it.node)
	return it.node != end
}

// nearestBefore returns the node right before node. The back link may miss insertions
// that are under way; forward links never do.
func (it *Iter) nearestBefore(node uint32) uint32 {
	before := it.prev(node).Load()
	for {
		next := it.next(before, 0).Load()
		if next == node {
			return before
		}
		before = next
	}
}

// Valid implements base.Iterator.
func (it *Iter) Valid() bool { return it.node != end }

// Key implements base.Iterator. The slice must not be modified.
func (it *Iter) Key() []byte { return it.internalKey(it.node) }

// Value implements base.Iterator. The slice is memory of the memtable: it must not be modified.
func (it *Iter) Value() []byte { return it.value(it.node) }

// Err implements base.Iterator.
func (it *Iter) Err() error { return nil }

// Close implements base.Iterator.
func (it *Iter) Close() error {
	it.node = end
	return nil
}
