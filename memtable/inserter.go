package memtable

import "github.com/sievedb/sievedb/internal/base"

// Inserter remembers the place of its last insertion. An insertion nearby, such as the next key in ascending order,
// then finds its place without a search from the top. The zero Inserter is ready for use. Only one goroutine at a time
// may use an Inserter, but several goroutines, each with its own, may add to the same memtable. An Inserter may be used
// for one memtable after another. It keeps a reference to the last one until Reset.
type Inserter struct {
	// Frugal, if set before the first use, saves the memory that makes insertions in
	// random order cheap: up to half of the memtable's.
	Frugal bool

	m      *Memtable
	splice splice
}

// AddWith is Add, but begins its search at the last place of ins.
func (m *Memtable) AddWith(ins *Inserter, seq uint64, kind base.Kind, key, value []byte) bool {
	ins.use(m)
	return m.add(&ins.splice, seq, kind, key, value)
}

// use makes m the memtable that ins adds to.
func (ins *Inserter) use(m *Memtable) {
	if ins.m != m {
		ins.Reset()
		ins.m = m
		if r := ins.splice.ranks; r != nil {
			r.trim(m)
		}
	}
}

// Reset makes the Inserter drop its reference to the memtable. It keeps its own memory for the next memtable.
func (ins *Inserter) Reset() {
	if ins.m != nil {
		ins.m.ranksSize.Store(0)
	}
	ins.m = nil
	r := ins.splice.ranks
	switch {
	case r != nil:
		r.reset()
	case !ins.Frugal:
		r = new(ranks)
	}
	ins.splice = splice{ranks: r}
}

// splice is a place in the list: on each level below height, a node before the place and a node after it. Between uses,
// before[0] is the node inserted last, and every other node of before precedes it or is the same.
//
// whole is true if the list had no node above height when the splice was found.
type splice struct {
	height int
	whole  bool
	before [maxHeight]uint32
	after  [maxHeight]uint32

	ranks    *ranks // nil without an Inserter, or with a Frugal one
	searched bool   // the last find had to search
}

// find moves s to t's place, for a node of the given height.
func (s *splice) find(m *Memtable, t *target, height int) {
	ranked := s.ranks != nil && s.ranks.seek(m, t)
	if !ranked && s.height > 0 && (s.whole || height <= s.height) && s.holds(m, t) {
		return
	}
	m.makeGuide(s.ranks)
	if ranked && height <= topRank+1 {
		s.findInRanks(m, t, height)
		return
	}
	s.searched = true
	var before, after uint32 = end, end
	top := int(m.height.Load()) - 1
	s.whole = true
	if height <= guideLevel+1 {
		before, top = m.start(t)
		s.whole = before == end
	}
	s.height = top + 1
	for level := top; level >= 0; level-- {
		before, after = m.searchLevel(before, after, level, t)
		s.before[level], s.after[level] = before, after
	}
}

// findInRanks is find for a node of at most topRank+1 levels, all of which s.ranks knows.
func (s *splice) findInRanks(m *Memtable, t *target, height int) {
	s.height, s.whole = height, false
	// If others have added nodes in between, link notices.
	s.before[0], s.after[0] = s.ranks.before(0), s.ranks.after()
	// Load the two links that will be swapped, so that both come from memory together.
	t.touched += m.next(s.before[0], 0).Load() + m.prev(s.after[0]).Load()
	for level := 1; level < height; level++ {
		s.before[level], s.after[level] = m.searchLevel(s.ranks.before(level), end, level, t)
	}
}

// addRank adds the linked node to s.ranks. s.ranks begins with the first search in a
// memtable that has at least firstGuide entries.
func (s *splice) addRank(m *Memtable, node uint32, height int) {
	r := s.ranks
	switch {
	case r == nil:
	case r.state == ranksInUse:
		if leaves := len(r.leaves); r.insert(node, height) && len(r.leaves) > leaves {
			m.ranksSize.Store(int64(r.size()))
		}
	case r.state == ranksNotYet && s.searched && m.Len() >= firstGuide:
		r.begin(m)
		m.ranksSize.Store(int64(r.size()))
	}
	s.searched = false
}

// holds reports whether t belongs between the nodes of the bottom pair and these are still neighbours. Then t also
// belongs between the nodes of every other pair: no s.before[level] is after s.before[0], and every s.after[level] is
// after s.before[0], hence not before its neighbour s.after[0].
//
// Climbing from pair to pair until one holds t would help keys that are merely
// nearby, but it made random insertions up to a tenth more expensive.
func (s *splice) holds(m *Memtable, t *target) bool {
	before, after := s.before[0], s.after[0]
	return m.precedes(before, t) &&
		(after == end || !m.precedes(after, t)) &&
		m.next(before, 0).Load() == after
}

// link links node, whose key is t, into the list at s, and leaves s right after it. It begins with the bottom level,
// which makes the node part of the memtable; the upper levels only make searches faster.
func (s *splice) link(m *Memtable, node uint32, height int, t *target) {
	for ; s.height < height; s.height++ {
		s.before[s.height], s.after[s.height] = end, end
	}
	for level := range height {
		before, after := s.before[level], s.after[level]
		for !m.linkLevel(node, before, after, level) {
			// Another writer was here first. Its nodes can be on either side of the
			// place, and the old pair still bounds the search.
			before, after = m.searchLevel(before, after, level, t)
		}
		s.before[level], s.after[level] = node, after
	}
}
