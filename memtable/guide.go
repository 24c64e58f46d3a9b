package memtable

import (
	"bytes"
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
)

// guide is a sorted array of the nodes that stood on one level of the list when it
// was made, with eight bytes of each one's key. A search by halves in the array takes
// the place of a walk from the top down to that level, whose every step would wait for
// a node; what was added since is met on the way from there.
//
// A guide is immutable. It names nodes that precede what is searched for and are on
// guideLevel, which stays true for ever, so that a guide may be as old as it likes.
type guide struct {
	prefix []byte   // what the keys of all its nodes begin with
	tails  []uint64 // ascending: keyTail of each node's key behind prefix
	nodes  []uint32
}

// guideLevel has one node in 16. A full memtable of 16 MiB with entries of 16 + 100
// bytes makes a guide of 90 KB. One level up, searches are a fifth dearer; one level
// down, lookups are a tenth cheaper, insertions are not, and the guide is four times as large.
const guideLevel = 2

// firstGuide is how many entries a memtable has when its first guide is made. Each
// further one is made when there are half as many again: in all that is some three
// walks over a sixteenth of the nodes.
const firstGuide = 1024

// find returns the last node of g whose tail is less than t's, and makes t compare
// tails. It does so where another node of g follows whose tail is greater: then all
// keys between the two begin with g.prefix.
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

// makeGuide makes a guide when one is due, in the Add that finds it so. Adds in
// ascending order, which search nothing, need none.
func (m *Memtable) makeGuide() {
	entries, due := m.entries.Load(), m.guideDue.Load()
	if entries < due || !m.bytewise || !m.guideDue.CompareAndSwap(due, entries+entries/2) {
		return
	}
	g := &guide{nodes: make([]uint32, 0, entries>>(guideLevel*heightBits)*9/8)}
	for node := m.next(end, guideLevel).Load(); node != end; node = m.next(node, guideLevel).Load() {
		g.nodes = append(g.nodes, node)
	}
	if len(g.nodes) == 0 {
		return
	}
	first, last := m.userKey(g.nodes[0]), m.userKey(g.nodes[len(g.nodes)-1])
	g.prefix = first[:base.SharedPrefixLen(first, last)]
	g.tails = make([]uint64, len(g.nodes))
	for i, node := range g.nodes {
		g.tails[i] = m.keyTail(node, len(g.prefix))
	}
	m.guide.Store(g)
}

// keyTail returns the 8 bytes of node's user key from skip on, as keyPrefix does. The
// key is at least that long, so that with the trailer the load never leaves the node.
func (n nodes) keyTail(node uint32, skip int) uint64 {
	p := binary.BigEndian.Uint64((*[8]byte)(n.at(node, keyOffset+uintptr(skip)))[:])
	if k := int(n.keyLen(node)) - skip; k < 8 {
		p &^= ^uint64(0) >> (8 * k)
	}
	return p
}

// GuideSize returns the bytes that find places take beside arena and filter: the guide,
// 12 for each 16 of the entries that there were when it was made, and the ranks of the
// Inserter in use, some 17 for each entry and at most half of the arena and
// a bit, unless the entries came in order. Both are 0 while there are few.
func (m *Memtable) GuideSize() int {
	size := int(m.ranksSize.Load())
	if g := m.guide.Load(); g != nil {
		size += 4*cap(g.nodes) + 8*cap(g.tails)
	}
	return size
}
