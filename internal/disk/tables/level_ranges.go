package tables

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// RangeCounters count the results of range filters for the tables of a level.
type RangeCounters struct {
	negatives      atomic.Uint64 // the table was skipped
	truePositives  atomic.Uint64 // it was not, and the iterator found an entry within its bounds
	falsePositives atomic.Uint64 // it was not, and there was none
}

// Load returns the counts.
func (c *RangeCounters) Load() (negatives, truePositives, falsePositives uint64) {
	return c.negatives.Load(), c.truePositives.Load(), c.falsePositives.Load()
}

// notEmpty returns the first of the tables i, i+step, ... that no range filter rules out
// for user keys in [lower, upper).
func (l *LevelIter) notEmpty(i, step int, lower, upper []byte) int {
	if l.ranges == nil {
		return i
	}
	return l.skipEmpty(i, step, lower, upper)
}

func (l *LevelIter) skipEmpty(i, step int, lower, upper []byte) int {
	l.pending = false
	for ; i >= 0 && i < len(l.files); i += step {
		r, err := l.tables.Get(l.files[i])
		if err != nil {
			return i // opening it returns the error
		}
		may, consulted := r.RangeMayMatch(lower, upper)
		if may {
			l.pending = consulted
			return i
		}
		l.ranges.negatives.Add(1)
	}
	return i
}

// seekBound returns the upper bound for the user keys that SeekLT may find. A caller's target
// sorts before all entries of its user key, but MergingIter.turn also seeks to entries.
func (l *LevelIter) seekBound(ikey []byte) []byte {
	if seq, kind := base.SplitTrailer(base.Trailer(ikey)); seq == base.MaxSeq && kind == base.KindSeek {
		return base.UserKey(ikey)
	}
	return l.options.Upper
}

// found returns ok, which says whether the search in the current table found an entry. If a
// range filter passed the table, found counts whether that was right.
func (l *LevelIter) found(ok bool) bool {
	if l.pending {
		l.countPositive(ok)
	}
	return ok
}

func (l *LevelIter) countPositive(ok bool) {
	l.pending = false
	switch {
	case l.table.Err() != nil:
	case ok && l.within(base.UserKey(l.table.Key())):
		l.ranges.truePositives.Add(1)
	default:
		l.ranges.falsePositives.Add(1)
	}
}

// within reports whether a key is within both bounds.
func (l *LevelIter) within(userKey []byte) bool {
	return l.cmp.Compare(userKey, l.options.Lower) >= 0 && l.cmp.Compare(userKey, l.options.Upper) < 0
}
