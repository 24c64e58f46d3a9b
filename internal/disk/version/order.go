package version

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// A flush writes the newest entries to the table with the greatest number, so the first table of
// level 0 that has a key has its newest version. Other histories break this order: goleveldb's
// RecoverFile and LevelDB's RepairDB put the tables of all levels on level 0 and keep their numbers,
// which say nothing about the age of a compaction's output. So the order is used only if it is known
// to agree with the tables' sequence numbers, which our tables have in their properties.

// SeqRange is the range, both ends included, of the sequence numbers that a table's entries have or
// had. Known is false if the table's writer did not record them.
type SeqRange struct {
	Smallest, Largest uint64
	Known             bool
}

// newerThan reports whether all entries of r are known to be newer than all entries of other.
func (r *SeqRange) newerThan(other *SeqRange) bool {
	return r != nil && other != nil && r.Known && other.Known && r.Smallest > other.Largest
}

// maxOrdered is the largest number of tables of level 0 that are all compared with each other. If
// there are more, each must be newer than the next.
const maxOrdered = 64

// order says whether the first table of level 0 that has a key has its newest version.
type order int32

const (
	inOrder      order = iota
	orderUnknown       // it depends on tables about which nothing is known yet
	notInOrder         // it is not in order, or that cannot be known
)

// orderOf returns the order of files, whose numbers descend.
func orderOf(cmp *base.Comparer, files []*FileMeta) order {
	result := inOrder
	for i := 1; i < len(files); i++ {
		newer, older := files[i-1].Seqs.Load(), files[i].Seqs.Load()
		switch {
		case newer.newerThan(older):
		case newer != nil && older != nil:
			result = notInOrder
		case result == inOrder:
			result = orderUnknown
		}
	}
	if result == inOrder || len(files) > maxOrdered {
		return result
	}
	result = inOrder
	for i, f := range files {
		newer := f.Seqs.Load()
		for _, other := range files[i+1:] {
			older := other.Seqs.Load()
			if newer.newerThan(older) || !f.OverlapsUser(cmp, base.UserKey(other.Smallest), base.UserKey(other.Largest)) {
				continue
			}
			if newer != nil && older != nil {
				return notInOrder
			}
			result = orderUnknown
		}
	}
	return result
}

// InOrder reports whether, among files of level 0 with descending numbers, the first that has a key is
// known to have its newest version.
func InOrder(cmp *base.Comparer, files []*FileMeta) bool { return orderOf(cmp, files) == inOrder }

// level0State is the known order of a version's level 0.
type level0State struct {
	order  atomic.Int32
	opened atomic.Int32 // how many tables had known sequence numbers when order was determined
}

// Level0InOrder reports whether the first table of level 0 that has a key is known to have its newest
// version. Otherwise a lookup consults all tables that cover the key.
func (v *Version) Level0InOrder() bool { return order(v.level0.order.Load()) == inOrder }

// Level0OrderUnknown reports whether the order of level 0 depends on tables about which nothing is known yet.
func (v *Version) Level0OrderUnknown() bool { return order(v.level0.order.Load()) == orderUnknown }

// LearnOrder determines the order of level 0 once the sequence numbers are known on which it depends.
func (v *Version) LearnOrder() {
	if !v.Level0OrderUnknown() {
		return
	}
	opened := int32(0)
	for _, f := range v.Levels[0].Files {
		if f.Seqs.Load() != nil {
			opened++
		}
	}
	if v.level0.opened.Swap(opened) != opened {
		v.level0.order.CompareAndSwap(int32(orderUnknown), int32(orderOf(v.Cmp, v.Levels[0].Files)))
	}
}
