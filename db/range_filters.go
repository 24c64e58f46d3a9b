package db

import (
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/errors"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
)

// An iterator with both bounds asks the filters of ranges (Options.RangeFilters) of each
// table that it comes to whether the table holds anything in what is left of its range.
// Where it does not, the table is passed over: neither its index nor a block is read.
// Tombstones are keys of their table as well, so that nothing that hides an older value is
// ever passed over.

// rangeCounters count what filters of ranges did at the tables of a level.
type rangeCounters struct {
	negatives      atomic.Uint64 // the table was passed over
	truePositives  atomic.Uint64 // it was not, and the iterator found an entry within its bounds
	falsePositives atomic.Uint64 // it was not, and there was none
}

// rangeFilters is what the store has for each level.
type rangeFilters [NumLevels]rangeCounters

func (o *Options) newRangeFilters() *rangeFilters {
	if len(o.RangeFilters) == 0 {
		return nil
	}
	return new(rangeFilters)
}

// forBounds returns the counters of a level for an iterator with these bounds, nil if it
// has nothing to ask.
func (r *rangeFilters) forBounds(level int, lower, upper []byte) *rangeCounters {
	if r == nil || lower == nil || upper == nil {
		return nil
	}
	return &r[level]
}

func (r *rangeFilters) addTo(m *Metrics) {
	if r == nil {
		return
	}
	for level := range r {
		l := &m.Levels[level]
		l.RangeNegatives = r[level].negatives.Load()
		l.RangeTruePositives = r[level].truePositives.Load()
		l.RangeFalsePositives = r[level].falsePositives.Load()
		l.RangeChecks = l.RangeNegatives + l.RangeTruePositives + l.RangeFalsePositives
	}
}

// notEmpty returns the first of the tables i, i+step, ... that no filter rules out for
// keys from lower on and below upper.
func (l *levelIter) notEmpty(i, step int, lower, upper []byte) int {
	if l.ranges == nil {
		return i
	}
	return l.passEmpty(i, step, lower, upper)
}

func (l *levelIter) passEmpty(i, step int, lower, upper []byte) int {
	l.asked = false
	for ; i >= 0 && i < len(l.files); i += step {
		r, err := l.tables.get(l.files[i])
		if err != nil {
			return i // whoever opens it is told
		}
		may, asked := r.RangeMayMatch(lower, upper)
		if may {
			l.asked = asked
			return i
		}
		l.ranges.negatives.Add(1)
	}
	return i
}

// seekBound returns the upper bound for what SeekLT may find: what a caller seeks is
// before all entries of its user key, but the runs seek each other's entries too.
func (l *levelIter) seekBound(ikey []byte) []byte {
	if seq, kind := base.SplitTrailer(base.Trailer(ikey)); seq == base.MaxSeq && kind == base.KindSeek {
		return base.UserKey(ikey)
	}
	return l.options.Upper
}

// found returns ok, which is whether the present table has an entry where it was sought,
// and counts whether a filter that was asked for it was right.
func (l *levelIter) found(ok bool) bool {
	if l.asked {
		l.judge(ok)
	}
	return ok
}

func (l *levelIter) judge(ok bool) {
	l.asked = false
	switch {
	case l.table.Err() != nil:
	case ok && l.within(base.UserKey(l.table.Key())):
		l.ranges.truePositives.Add(1)
	default:
		l.ranges.falsePositives.Add(1)
	}
}

// within reports whether a key is within the bounds. There are both.
func (l *levelIter) within(userKey []byte) bool {
	return l.cmp.Compare(userKey, l.options.Lower) >= 0 && l.cmp.Compare(userKey, l.options.Upper) < 0
}

func (o *Options) validateRangeFilters() error {
	if n := len(o.RangeFilters); n > sstable.MaxRangePolicies {
		return errors.Newf("sievedb: Options.RangeFilters has %d policies; at most %d are supported", n, sstable.MaxRangePolicies)
	}
	var names []string
	for i, p := range o.RangeFilters {
		if p == nil {
			return errors.Newf("sievedb: Options.RangeFilters[%d] is nil", i)
		}
		if p.Name() == "" {
			return errors.Newf("sievedb: Options.RangeFilters[%d] has no Name; the name tells its filters from others", i)
		}
		names = append(names, p.Name())
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < len(o.RangeFilters) {
		return errors.New("sievedb: Options.RangeFilters has two policies of one name; a table has one filter of each")
	}
	if len(o.RangeFilters) > 0 && !o.Comparer.IsBytewise() {
		return errors.Newf("sievedb: Options.RangeFilters go by the order of bytes, but Options.Comparer is %q; unset one of the two", o.Comparer.Name)
	}
	return nil
}
