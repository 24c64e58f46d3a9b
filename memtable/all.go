package memtable

import "iter"

// All reads the list in stretches between neighbours on stationLevel, 16 entries each on
// average, and as many of them side by side as there are walkers. (8 make a flush of random
// keys 6 % dearer, 4 twice that.)
const (
	stationLevel = 2
	walkers      = 16
	lineBytes    = 64 // of the processor's cache
)

// stretch is a part of the list: the nodes behind a station up to and with stop, the next
// one. The head is a station as well, which stands for no entry.
type stretch struct {
	start, stop uint32
	nodes       []uint32
	touched     byte // keeps the loads of touchEntry
}

// All returns the internal keys and values of all entries in order, for one who reads the
// whole memtable. Where entries came in random order an Iter waits for memory at each of
// them; All has several on their way at once. For entries that are added meanwhile, and for
// the slices, it promises what Iter does.
func (m *Memtable) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(ikey, value []byte) bool) {
		var room [walkers]stretch
		goOn := true
		for station, last := uint32(end), false; goOn && !last; {
			group := room[:m.cut(&room, station)]
			station = group[len(group)-1].stop
			if last = station == end; ascend(group) {
				goOn = m.each(group, yield)
			} else {
				m.gather(group)
				goOn = m.eachGathered(group, yield)
			}
		}
	}
}

// cut makes stretches that follow each other behind a station, and returns how many: fewer
// than there are walkers only at the end of the list.
func (m *Memtable) cut(room *[walkers]stretch, station uint32) (used int) {
	for i := range room {
		s := &room[i]
		s.start = station
		station = m.next(station, stationLevel).Load()
		if s.stop = station; station == end {
			return i + 1
		}
	}
	return walkers
}

// ascend reports whether the stretches seem to lie in memory in their order, as those of
// entries do that came so. What comes next is loaded ahead by the processor then.
func ascend(group []stretch) bool {
	for i := range group {
		if s := &group[i]; s.stop < s.start && s.stop != end {
			return false
		}
	}
	return true
}

// each yields the entries of all stretches.
func (m *Memtable) each(group []stretch, yield func(ikey, value []byte) bool) bool {
	stop := group[len(group)-1].stop
	for node := group[0].start; ; {
		if node = m.next(node, 0).Load(); node != end && !yield(m.internalKey(node), m.value(node)) {
			return false
		}
		if node == stop {
			return true
		}
	}
}

// gather lists the nodes of all stretches, going a step in each of them in turn. No stretch
// begins where it stops. What is on a level above 0 was on that one before, so no walk
// misses its end.
func (m *Memtable) gather(group []stretch) {
	var at [walkers]uint32
	for i := range group {
		at[i], group[i].nodes = group[i].start, group[i].nodes[:0]
	}
	for going := true; going; {
		going = false
		for i := range group {
			s := &group[i]
			if at[i] == s.stop {
				continue
			}
			node := m.next(at[i], 0).Load()
			if at[i], going = node, true; node != end {
				s.nodes = append(s.nodes, node)
				s.touched += m.touchEntry(node)
			}
		}
	}
}

// touchEntry loads two lines of a node's entry behind the one with the beginning of its key.
func (m *Memtable) touchEntry(node uint32) (touched byte) {
	size := uintptr(m.keyLen(node)) + uintptr(m.valueLen(node))
	for at := uintptr(lineBytes); at <= min(size, 2*lineBytes); at += lineBytes {
		touched += *(*byte)(m.at(node, at))
	}
	return touched
}

// eachGathered yields the entries that gather has listed.
func (m *Memtable) eachGathered(group []stretch, yield func(ikey, value []byte) bool) bool {
	for i := range group {
		for _, node := range group[i].nodes {
			if !yield(m.internalKey(node), m.value(node)) {
				return false
			}
		}
	}
	return true
}
