package counters

import (
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// An iterator with both bounds queries the range filters (Options.Filters.RangePolicies) of each
// table that it reaches: does the table have a key in the remaining part of the range? If not,
// the iterator skips the table and reads neither its index nor a block. Tombstones are keys of
// their table as well, so the iterator never skips an entry that hides an older value.

// Ranges counts the results of range filters, by level.
type Ranges [version.NumLevels]tables.RangeCounters

// ForBounds returns the counters of a level for an iterator with these bounds, or nil if the
// iterator does not query range filters.
func (r *Ranges) ForBounds(level int, lower, upper []byte) *tables.RangeCounters {
	if r == nil || lower == nil || upper == nil {
		return nil
	}
	return &r[level]
}

// AddTo sets the counters of range filters in t. r may be nil.
func (r *Ranges) AddTo(t *Totals) {
	if r == nil {
		return
	}
	for level := range r {
		l := &t.Levels[level]
		l.RangeNegatives, l.RangeTruePositives, l.RangeFalsePositives = r[level].Load()
	}
}
