package counters

import (
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
)

// An iterator with both bounds asks the filters of ranges (Options.Filters.RangePolicies) of each
// table that it comes to whether the table holds anything in what is left of its range.
// Where it does not, the table is passed over: neither its index nor a block is read.
// Tombstones are keys of their table as well, so that nothing that hides an older value is
// ever passed over.

// Ranges are what the filters of ranges did, by level.
type Ranges [manifest.NumLevels]tables.RangeCounters

// ForBounds returns the counters of a level for an iterator with these bounds, nil if it
// has nothing to ask.
func (r *Ranges) ForBounds(level int, lower, upper []byte) *tables.RangeCounters {
	if r == nil || lower == nil || upper == nil {
		return nil
	}
	return &r[level]
}

// AddTo fills in what t says of range filters. r may be nil.
func (r *Ranges) AddTo(t *Totals) {
	if r == nil {
		return
	}
	for level := range r {
		l := &t.Levels[level]
		l.RangeNegatives, l.RangeTruePositives, l.RangeFalsePositives = r[level].Load()
	}
}
