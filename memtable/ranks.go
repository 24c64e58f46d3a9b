package memtable

import (
	"bytes"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
)

// ranks is an Inserter's own sorted list of the nodes, in leaves of up to leafSize nodes with
// eight bytes of each one's key. It yields the neighbours of a new node. A binary search in
// it waits for one or two cache lines, while a search of the skiplist waits for a node at each
// step. Readers cannot use it, since an insertion shifts the entries after it in the leaf.
//
// It is only a hint: it names nodes that precede a key, and levels that they are on. The walk
// that follows meets the nodes that others added.
type ranks struct {
	state  ranksState
	prefix []byte   // common to all keys
	shrunk int      // how often prefix has become shorter
	limit  int      // of len(leaves)
	leaves []leaf   // in the order of their creation
	sorted []uint32 // indexes of leaves, in the order of their keys; no leaf is empty
	firsts []uint64 // the first tail of each of sorted

	// The place that was found last, for insert: before entry pos of leaf sorted[leaf].
	leaf, pos int
	tail      uint64
}

type ranksState uint8

const (
	ranksNotYet ranksState = iota // keys have ascended, or there are few
	ranksInUse
	ranksGivenUp // for this memtable
)

// leaf has its entries sorted; n of them are in use.
type leaf struct {
	n     int
	tails [leafSize]uint64 // keyTail after ranks.prefix
	// nodes has offsets with the level in their lowest bits, which are otherwise zero: see levelBits.
	nodes [leafSize]uint32
}

const (
	// leafSize is a compromise between the entries that an insertion shifts and the number of leaves to search.
	leafSize = 128
	// maxLeaves bounds the shifting when a leaf is added. Memtables of about a million
	// entries reach it and continue without ranks.
	maxLeaves = 16 << 10
	// The leaves of a memtable use at most half of its arena's size. For tombstones with
	// 16-byte keys they use two fifths. A memtable of entries with less than 10 bytes of key
	// and value reaches the bound before it is full and continues without ranks.
	arenaPerLeafByte = 2
	// maxShrinks bounds how often all tails are recomputed.
	maxShrinks = 16

	// levelBits of a leaf's node hold the highest level that the node is on. topRank is
	// their greatest value and means that level or a higher one.
	levelBits = nodeAlign - 1
	topRank   = levelBits
)

// reset prepares r for another memtable and keeps its memory.
func (r *ranks) reset() {
	*r = ranks{leaves: r.leaves[:0], sorted: r.sorted[:0], firsts: r.firsts[:0], prefix: r.prefix[:0]}
}

// trim releases memory left from a far larger memtable, before r's first use for m.
func (r *ranks) trim(m *Memtable) {
	if r.size()+cap(r.prefix) > max(minKeptRanks, m.Capacity()) {
		*r = ranks{}
	}
}

// minKeptRanks is the number of bytes that are kept whatever the size of the memtable.
const minKeptRanks = 64 << 10

// begin lists the existing nodes of m, which were added in ascending order or are few.
func (r *ranks) begin(m *Memtable) {
	r.state = ranksGivenUp
	first, last := m.next(end, 0).Load(), m.prev(end).Load()
	if !m.bytewise || first == end || last == end {
		return
	}
	key := m.userKey(first)
	r.prefix = append(r.prefix, key[:base.SharedPrefixLen(key, m.userKey(last))]...)
	r.state = ranksInUse
	r.limit = min(maxLeaves, m.Capacity()/arenaPerLeafByte/int(unsafe.Sizeof(leaf{})))
	var above [topRank + 1]uint32
	for level := range above {
		above[level] = m.next(end, level).Load()
	}
	for node := first; r.state == ranksInUse; node = above[0] {
		level := 0
		for l := range above {
			if above[l] == node {
				level, above[l] = l, m.next(node, l).Load()
			}
		}
		r.append(m.keyTail(node, len(r.prefix)), node|uint32(level))
		if node == last || above[0] == end {
			return
		}
	}
}

// size returns the bytes that r uses.
func (r *ranks) size() int {
	return cap(r.leaves)*int(unsafe.Sizeof(leaf{})) + 4*cap(r.sorted) + 8*cap(r.firsts)
}

// append adds an entry after all others. It leaves a quarter of each leaf free.
func (r *ranks) append(tail uint64, entry uint32) {
	r.leaf = len(r.sorted) - 1
	if r.leaf < 0 || r.leaves[r.sorted[r.leaf]].n >= leafSize*3/4 {
		if r.leaf++; !r.addLeaf(r.leaf) {
			return
		}
	}
	r.pos, r.tail = r.leaves[r.sorted[r.leaf]].n, tail
	r.put(entry)
}

// addLeaf makes an empty leaf the i-th in order.
func (r *ranks) addLeaf(i int) (ok bool) {
	n := len(r.leaves)
	if n >= r.limit {
		r.state = ranksGivenUp
		return false
	}
	if n < cap(r.leaves) {
		r.leaves = r.leaves[:n+1]
		r.leaves[n].n = 0
	} else {
		// Twice as many: an insertion waits for each copy, and some milliseconds for the last one.
		larger := make([]leaf, n+1, min(max(2*n, 8), r.limit))
		copy(larger, r.leaves)
		r.leaves = larger
	}
	r.sorted = append(r.sorted, 0)
	copy(r.sorted[i+1:], r.sorted[i:])
	r.sorted[i] = uint32(n)
	r.firsts = append(r.firsts, 0)
	copy(r.firsts[i+1:], r.firsts[i:])
	r.firsts[i] = 0
	return true
}

// seek finds the place of t. It returns false if r is not in use or has just been given up.
func (r *ranks) seek(m *Memtable, t *target) bool {
	if r.state != ranksInUse {
		return false
	}
	if !bytes.HasPrefix(t.key, r.prefix) && !r.shrink(m, t.key) {
		return false
	}
	r.tail = keyPrefix(t.key[len(r.prefix):])
	r.leaf = max(0, r.count(m, t, r.firsts, func(i int) uint32 { return r.leaves[r.sorted[i]].nodes[0] })-1)
	l := &r.leaves[r.sorted[r.leaf]]
	r.pos = r.count(m, t, l.tails[:l.n], func(i int) uint32 { return l.nodes[i] })
	return true
}

// count returns how many of the entries that have these tails precede t. It loads only the nodes with t's own tail.
func (r *ranks) count(m *Memtable, t *target, tails []uint64, entry func(i int) uint32) int {
	low := countLess(tails, r.tail)
	if low == len(tails) || tails[low] != r.tail {
		return low
	}
	high := len(tails)
	if r.tail < ^uint64(0) {
		high = low + countLess(tails[low:], r.tail+1)
	}
	for low < high {
		middle := int(uint(low+high) / 2)
		if m.precedes(entry(middle)&^levelBits, t) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// countLess returns how many of tails, which ascend, are less than tail.
func countLess(tails []uint64, tail uint64) int {
	low, n := 0, len(tails)
	for n > 1 {
		half := n / 2
		if tails[low+half-1] < tail {
			low += half
		}
		n -= half
	}
	if n == 1 && tails[low] < tail {
		low++
	}
	return low
}

// shrink shortens the prefix to one that key has as well. It returns false, and gives r up,
// if that has happened too often.
func (r *ranks) shrink(m *Memtable, key []byte) bool {
	if r.shrunk++; r.shrunk > maxShrinks {
		r.state = ranksGivenUp
		return false
	}
	r.prefix = r.prefix[:base.SharedPrefixLen(r.prefix, key)]
	for i, at := range r.sorted {
		l := &r.leaves[at]
		for j, entry := range l.nodes[:l.n] {
			l.tails[j] = m.keyTail(entry&^levelBits, len(r.prefix))
		}
		r.firsts[i] = l.tails[0]
	}
	return true
}

// addTo adds the nodes on guideLevel, with their tails, to an empty guide.
func (r *ranks) addTo(g *guide) {
	g.tails = make([]uint64, 0, cap(g.nodes))
	for _, at := range r.sorted {
		l := &r.leaves[at]
		for i, entry := range l.nodes[:l.n] {
			if entry&levelBits >= guideLevel {
				g.nodes, g.tails = append(g.nodes, entry&^levelBits), append(g.tails, l.tails[i])
			}
		}
	}
}

// before returns the last node before the place that is on level, which is at most topRank.
func (r *ranks) before(level int) uint32 {
	pos := r.pos
	for i := r.leaf; i >= 0; i-- {
		l := &r.leaves[r.sorted[i]]
		if i < r.leaf {
			pos = l.n
		}
		for pos > 0 {
			pos--
			if entry := l.nodes[pos]; entry&levelBits >= uint32(level) {
				return entry &^ levelBits
			}
		}
	}
	return end
}

// after returns the first node after the place.
func (r *ranks) after() uint32 {
	if l := &r.leaves[r.sorted[r.leaf]]; r.pos < l.n {
		return l.nodes[r.pos] &^ levelBits
	}
	if r.leaf+1 < len(r.sorted) {
		return r.leaves[r.sorted[r.leaf+1]].nodes[0] &^ levelBits
	}
	return end
}

// insert adds a node of the given height at the place that seek found. It returns false if
// r has no room and was given up.
func (r *ranks) insert(node uint32, height int) bool {
	if l := &r.leaves[r.sorted[r.leaf]]; l.n == leafSize && !r.split() {
		return false
	}
	r.put(node | uint32(min(height-1, topRank)))
	return true
}

// put adds an entry at the place, whose leaf must have room.
func (r *ranks) put(entry uint32) {
	l := &r.leaves[r.sorted[r.leaf]]
	copy(l.tails[r.pos+1:l.n+1], l.tails[r.pos:l.n])
	copy(l.nodes[r.pos+1:l.n+1], l.nodes[r.pos:l.n])
	l.tails[r.pos], l.nodes[r.pos] = r.tail, entry
	l.n++
	if r.pos == 0 {
		r.firsts[r.leaf] = r.tail
	}
}

// split moves half of the place's leaf to a new leaf.
func (r *ranks) split() bool {
	const half = leafSize / 2
	if !r.addLeaf(r.leaf + 1) {
		return false
	}
	from, to := &r.leaves[r.sorted[r.leaf]], &r.leaves[r.sorted[r.leaf+1]]
	copy(to.tails[:half], from.tails[half:])
	copy(to.nodes[:half], from.nodes[half:])
	from.n, to.n = half, half
	r.firsts[r.leaf+1] = to.tails[0]
	if r.pos > half {
		r.leaf, r.pos = r.leaf+1, r.pos-half
	}
	return true
}
