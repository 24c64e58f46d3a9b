package db

import (
	"slices"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// An iterator with both bounds asks the filters of ranges (Options.RangeFilters) of each
// table that it comes to whether the table holds anything in what is left of its range.
// Where it does not, the table is passed over: neither its index nor a block is read.
// Tombstones are keys of their table as well, so that nothing that hides an older value is
// ever passed over.

// rangeFilters is what the store has for each level.
type rangeFilters [NumLevels]tables.RangeCounters

func (o *Options) newRangeFilters() *rangeFilters {
	if len(o.RangeFilters) == 0 {
		return nil
	}
	return new(rangeFilters)
}

// forBounds returns the counters of a level for an iterator with these bounds, nil if it
// has nothing to ask.
func (r *rangeFilters) forBounds(level int, lower, upper []byte) *tables.RangeCounters {
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
		l.RangeNegatives, l.RangeTruePositives, l.RangeFalsePositives = r[level].Load()
		l.RangeChecks = l.RangeNegatives + l.RangeTruePositives + l.RangeFalsePositives
	}
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
