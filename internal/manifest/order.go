package manifest

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// A flush writes the newest entries to the table with the greatest number, so on
// level 0 the first table that holds a key has its newest version. Other histories
// break that: goleveldb's RecoverFile and LevelDB's RepairDB put the tables of all
// levels on level 0 and leave them their numbers, which say nothing of the age of
// what a compaction wrote. So the order counts only where the sequence numbers of
// the tables, which ours carry in their properties, are known to agree with it.

// SeqRange bounds the sequence numbers that a table's entries have or had, both ends
// included. Known is false where the table's writer did not say.
type SeqRange struct {
	Smallest, Largest uint64
	Known             bool
}

// newerThan reports whether all of r are known to be newer than all of other.
func (r *SeqRange) newerThan(other *SeqRange) bool {
	return r != nil && other != nil && r.Known && other.Known && r.Smallest > other.Largest
}

// maxOrdered is how many tables of level 0 are compared with each other. Of more, each
// must be newer than the one after it.
const maxOrdered = 64

// order says whether the first table of a level 0 that holds a key has its newest version.
type order int32

const (
	inOrder    order = iota
	notYet           // it depends on tables of which nothing is known yet
	notInOrder       // or it cannot be known
)

// orderOf returns the order of files, greatest number first.
func orderOf(cmp *base.Comparer, files []*FileMeta) order {
	result := inOrder
	for i := 1; i < len(files); i++ {
		newer, older := files[i-1].Seqs.Load(), files[i].Seqs.Load()
		switch {
		case newer.newerThan(older):
		case newer != nil && older != nil:
			result = notInOrder
		case result == inOrder:
			result = notYet
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
			result = notYet
		}
	}
	return result
}

// InOrder reports whether files of level 0, greatest number first, are known to hold the
// newest version of each key in the first of them that has it.
func InOrder(cmp *base.Comparer, files []*FileMeta) bool { return orderOf(cmp, files) == inOrder }

// level0State is what is known of a version's level 0.
type level0State struct {
	order  atomic.Int32
	opened atomic.Int32 // how many tables' numbers were known when it was determined
}

// Level0InOrder reports whether the first table of level 0 that holds a key is known to
// have its newest version. Otherwise a lookup asks all that cover the key.
func (v *Version) Level0InOrder() bool { return order(v.level0.order.Load()) == inOrder }

// Level0OrderOpen reports whether the order of level 0 depends on tables of which nothing
// is known yet.
func (v *Version) Level0OrderOpen() bool { return order(v.level0.order.Load()) == notYet }

// LearnOrder determines the order of level 0 once the numbers of tables are known that it
// depends on.
func (v *Version) LearnOrder() {
	if !v.Level0OrderOpen() {
		return
	}
	opened := int32(0)
	for _, f := range v.Levels[0].Files {
		if f.Seqs.Load() != nil {
			opened++
		}
	}
	if v.level0.opened.Swap(opened) != opened {
		v.level0.order.CompareAndSwap(int32(notYet), int32(orderOf(v.Cmp, v.Levels[0].Files)))
	}
}
