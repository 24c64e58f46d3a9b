package memtable

import (
	"bytes"
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
)

// guide is a sorted array of the nodes that were on one level of the list when it was made, with eight bytes of each
// one's key. A binary search in the array replaces a walk from the top down to that level, in which each step would
// wait for a node. The walk that follows meets the nodes that were added since.
//
// A guide is immutable. A search gets from it a node that precedes the target and is on
// guideLevel. Both facts never change, so a guide may be arbitrarily old.
type guide struct {
	prefix []byte   // common to the keys of all its nodes
	tails  []uint64 // ascending: keyTail of each node's key after prefix
	nodes  []uint32
}

// guideLevel has one node in 16. The guide of a full memtable of 16 MiB with entries of
// 16 + 100 bytes has 90 KB. One level up, searches cost a fifth more. One level down,
// lookups cost a tenth less, insertions cost the same, and the guide is four times as large.
const guideLevel = 2

// firstGuide is the number of entries for which the first guide is made. Each further
// guide is made when the number of entries has grown by half. All guides together cost
// about three walks over a sixteenth of the nodes or, with ranks, three readings of these.
const firstGuide = 1024

// find returns the last node of g whose tail is less than t's, and makes t compare tails. It does so only if a node of
// g with a greater tail follows: then all keys between the two nodes begin with g.prefix.
func (g *guide) find(t *target) (node uint32, ok bool) {
	n := len(g.tails)
	if n == 0 || !bytes.HasPrefix(t.key, g.prefix) {
		return end, false
	}
	tail := keyPrefix(t.key[len(g.prefix):])
	if g.tails[0] >= tail || g.tails[n-1] <= tail {
		return end, false
	}
	low := 0 // g.tails[low] < tail
	for n > 1 {
		half := n / 2
		if g.tails[low+half] < tail {
			low += half
		}
		n -= half
	}
	t.skip, t.prefix = len(g.prefix), tail
	return g.nodes[low], true
}

// makeGuide makes a guide if one is due. It is called by Adds that search; Adds in ascending order do not search and
// need no guide. r is the Inserter's list of nodes, nil if there is none: the Add waits 0.16 ms for a guide of 90,000
// entries that is read from it, and 0.44 ms for a walk.
func (m *Memtable) makeGuide(r *ranks) {
	entries, due := int64(m.Len()), m.guideDue.Load()
	if entries < due || !m.bytewise || !m.guideDue.CompareAndSwap(due, entries+entries/2) {
		return
	}
	g := &guide{nodes: make([]uint32, 0, entries>>(guideLevel*heightBits)*9/8)}
	known := -1 // after so many bytes of the keys, g has their tails
	if r != nil && r.state == ranksInUse {
		r.addTo(g)
		known = len(r.prefix)
	} else {
		for node := m.next(end, guideLevel).Load(); node != end; node = m.next(node, guideLevel).Load() {
			g.nodes = append(g.nodes, node)
		}
	}
	if len(g.nodes) == 0 {
		return
	}
	first, last := m.userKey(g.nodes[0]), m.userKey(g.nodes[len(g.nodes)-1])
	g.prefix = first[:base.SharedPrefixLen(first, last)]
	if len(g.prefix) != known {
		g.tails = make([]uint64, len(g.nodes))
		for i, node := range g.nodes {
			g.tails[i] = m.keyTail(node, len(g.prefix))
		}
	}
	m.guide.Store(g)
}

// keyTail returns the 8 bytes of node's user key from skip on, as keyPrefix does. The
// key has at least skip bytes, so with the trailer the load stays within the node.
func (n nodes) keyTail(node uint32, skip int) uint64 {
	p := binary.BigEndian.Uint64((*[8]byte)(n.at(node, keyOffset+uintptr(skip)))[:])
	if k := int(n.keyLen(node)) - skip; k < 8 {
		p &^= ^uint64(0) >> (8 * k)
	}
	return p
}

// GuideSize returns the bytes used for searches, in addition to arena and filter. The guide uses 12 bytes for each 16
// entries that existed when it was made. Unless entries came in order, the ranks of the current Inserter use about 17
// bytes per entry, at most a little more than half of the arena. Both are 0 while there are few entries.
func (m *Memtable) GuideSize() int {
	size := int(m.ranksSize.Load())
	if g := m.guide.Load(); g != nil {
		size += 4*cap(g.nodes) + 8*cap(g.tails)
	}
	return size
}
