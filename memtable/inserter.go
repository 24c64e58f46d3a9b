package memtable

import "github.com/sievedb/sievedb/internal/base"

// Inserter remembers where its last insertion went, so that the next one
// nearby, above all the next one of an ascending run, finds its place without
// a search from the top. The zero Inserter is ready. One goroutine at a time
// uses an Inserter; several goroutines, each with its own, may add to one
// memtable. It may move on to another memtable, and keeps the memtable that it
// was last used with reachable.
type Inserter struct {
	// Frugal, when set before the first use, spares the memory that makes insertions
	// in random order cheap: up to half of the memtable's.
	Frugal bool

	m      *Memtable
	splice splice
}

// AddWith is Add that starts from where ins was last.
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

// Reset makes the Inserter forget its memtable, which it does not keep reachable any
// more. Its own memory it keeps for the next one.
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

// splice is a place in the list: on each level below height, a node before it
// and one behind it. Between uses, before[0] is the node that was inserted
// last, and every other node of before precedes it or is the same.
//
// whole says that the list had no node above height when it was found.
type splice struct {
	height int
	whole  bool
	before [maxHeight]uint32
	behind [maxHeight]uint32

	ranks    *ranks // nil without an Inserter
	searched bool   // find did not get by with the last place
}

// find moves s to t's place, for a node of that height.
func (s *splice) find(m *Memtable, t *target, height int) {
	ranked := s.ranks != nil && s.ranks.seek(m, t)
	if !ranked && s.height > 0 && (s.whole || height <= s.height) && s.holds(m, t) {
		return
	}
	m.makeGuide()
	if ranked && height <= topRank+1 {
		s.takeRanks(m, t, height)
		return
	}
	s.searched = true
	var before, behind uint32 = end, end
	top := int(m.height.Load()) - 1
	s.whole = true
	if height <= guideLevel+1 {
		before, top = m.start(t)
		s.whole = before == end
	}
	s.height = top + 1
	for level := top; level >= 0; level-- {
		before, behind = m.searchLevel(before, behind, level, t)
		s.before[level], s.behind[level] = before, behind
	}
}

// takeRanks is find for a node of a height that s.ranks has all levels of.
func (s *splice) takeRanks(m *Memtable, t *target, height int) {
	s.height, s.whole = height, false
	// That others have added something in between, link finds out by itself.
	s.before[0], s.behind[0] = s.ranks.before(0), s.ranks.behind()
	// The links that are going to be swapped: both come from memory at once.
	t.touched += m.next(s.before[0], 0).Load() + m.prev(s.behind[0]).Load()
	for level := 1; level < height; level++ {
		s.before[level], s.behind[level] = m.searchLevel(s.ranks.before(level), end, level, t)
	}
}

// noteRank tells s.ranks of the node that was linked. Where find has just searched for
// the first time in a memtable worth it, s.ranks begins.
func (s *splice) noteRank(m *Memtable, node uint32, height int) {
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

// holds reports whether t belongs between the nodes of the bottom pair and
// these are still neighbours. Then t belongs between those of every other pair,
// too: no s.before[level] is behind s.before[0], and every s.behind[level] is
// behind s.before[0], hence not before its neighbour s.behind[0].
//
// To climb from pair to pair until one holds t would help keys that are merely
// near; but it made random insertion dearer by up to a tenth.
func (s *splice) holds(m *Memtable, t *target) bool {
	before, behind := s.before[0], s.behind[0]
	return m.precedes(before, t) &&
		(behind == end || !m.precedes(behind, t)) &&
		m.next(before, 0).Load() == behind
}

// link puts node, whose key is t, into the list at s, and leaves s right behind
// it. Bottom level first: from then on the node is in the memtable, and what
// the upper levels add is speed.
func (s *splice) link(m *Memtable, node uint32, height int, t *target) {
	for ; s.height < height; s.height++ {
		s.before[s.height], s.behind[s.height] = end, end
	}
	for level := range height {
		before, behind := s.before[level], s.behind[level]
		for !m.linkLevel(node, before, behind, level) {
			// Another writer was here first. What it added can lie on either side,
			// and the old pair still bounds the search.
			before, behind = m.searchLevel(before, behind, level, t)
		}
		s.before[level], s.behind[level] = node, behind
	}
}
