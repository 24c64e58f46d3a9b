package tables

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
)

// Twins are entries with the same internal key in several tables. Our own store never has them. But goleveldb's
// RecoverFile and LevelDB's RepairDB restore tables that were waiting for removal, whose entries may also be in the
// outputs of a compaction. Twins with equal values count once. Different values are corruption, since a sequence number
// belongs to only one entry.
//
// Sequence number 0 is the exception. A compaction gives it to an entry that has nothing
// older below it (internal/work/compact/zero_seq.go), so a restored input may hold an older value
// under the same internal key. Then the twin nearer to level 0 counts and, on the same
// level, the one in the table with the greater number, which was written later.

// twinBefore is MergingIter.before for twins.
func (m *MergingIter) twinBefore(a, b *mergingRun) bool {
	if m.strict && m.err == nil && twinsDiffer(a, b) {
		m.err = ErrTwinsDiffer(a.source(), b.source(), base.Trailer(a.key))
	}
	newer := a.rank < b.rank
	if a.rank == b.rank && a.level != nil && b.level != nil {
		newer = a.level.fileNum() > b.level.fileNum()
	}
	return newer != m.reverse
}

// source returns the name of the table of the run's current entry, or "a memtable".
func (r *mergingRun) source() string {
	if r.level != nil {
		return r.level.files[r.level.index].Name()
	}
	return "a memtable"
}

// TwinFollows reports whether the next entry, going forward, is a twin of the current one.
func (m *MergingIter) TwinFollows() bool {
	if !m.tied || len(m.order) < 2 {
		return false
	}
	a, b := m.order[0].key, m.order[1].key
	return base.Trailer(a) == base.Trailer(b) && m.compare(a, b) == 0
}

// DifferingTwins returns the runs of the current entry and of the next one, if these are twins
// whose values prove corruption.
func (m *MergingIter) DifferingTwins() (a, b base.Iterator, ok bool) {
	if !m.TwinFollows() || !twinsDiffer(m.order[0], m.order[1]) {
		return nil, nil, false
	}
	return m.order[0].it, m.order[1].it, true
}

// TwinSources returns the names of the tables of the current entry and of the next one, its
// twin, in alphabetical order, and reports whether their values prove corruption.
func (m *MergingIter) TwinSources() (name, other string, differ bool) {
	a, b := m.order[0], m.order[1]
	return min(a.source(), b.source()), max(a.source(), b.source()), twinsDiffer(a, b)
}

// twinsDiffer reports whether the values of twins prove corruption.
func twinsDiffer(a, b *mergingRun) bool {
	return ValuesConflict(base.Trailer(a.key), a.it.Value(), b.it.Value())
}

// ValuesConflict reports whether a and b cannot both be the value of an internal key
// with that trailer. References to equal values may differ: several tables can have them.
func ValuesConflict(trailer uint64, a, b []byte) bool {
	seq, kind := base.SplitTrailer(trailer)
	if seq == 0 || bytes.Equal(a, b) {
		return false
	}
	if kind == base.KindRef {
		refA, errA := base.DecodeValueRef(a)
		refB, errB := base.DecodeValueRef(b)
		return errA != nil || errB != nil || refA.Len != refB.Len
	}
	return true
}

// ErrTwinsDiffer returns the error for two files that hold different values for the same internal key.
func ErrTwinsDiffer(name, other string, trailer uint64) error {
	seq, _ := base.SplitTrailer(trailer)
	return base.Corruptf("table", -1, "%s and %s hold different values for the same key with sequence number %d; "+
		"want equal ones: one file is damaged or from another database; Repair keeps one of the values",
		name, other, seq)
}

// Merges reports whether there are several runs.
func (m *MergingIter) Merges() bool { return len(m.runs) > 1 }
