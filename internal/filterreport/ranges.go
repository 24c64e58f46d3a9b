package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/sstable"
)

// rangeAsked is the state of a filter of ranges that iterators ask.
const rangeAsked = "asked"

// rangeReports reports on the filters of ranges of a table with so many keys.
func rangeReports(r *sstable.Reader, keys uint64, level int, c *Counts) (reports []Range) {
	for _, f := range r.RangeFilters() {
		report := Range{Policy: f.Policy, Bytes: f.Bytes, State: rangeAsked}
		if f.Err != nil {
			report.State = f.Err.Error()
		}
		if keys > 0 {
			report.BitsPerKey = 8 * float64(f.Bytes) / float64(keys)
		}
		report.Verdict, report.Detail = judgeRanges(f.Err, &c.Levels[level].Ranges, c.rangeChecks())
		report.Advice = Advice(report.Verdict)
		reports = append(reports, report)
	}
	return reports
}

const (
	// rangesToTell is how often iterators must have asked, on any level, before it means something
	// that they did not on this one.
	rangesToTell = 1000
	// emptyToTell is of how many tables that held nothing in the range it must be known whether
	// they were passed over.
	emptyToTell = 100
)

// judgeRanges returns the verdict on a filter of ranges of a level, and what is behind it.
// unusable is why it is not asked; checks is how often those of all levels were.
func judgeRanges(unusable error, l *Verdicts, checks uint64) (verdict, detail string) {
	did := fmt.Sprintf("asked %d times on the level: %d tables passed over, %d held something in the range, %d did not",
		l.asked(), l.Negatives, l.TruePositives, l.FalsePositives)
	empty := l.Negatives + l.FalsePositives
	switch {
	case errors.Is(unusable, base.ErrCorruption):
		return Damaged, unusable.Error()
	case unusable != nil:
		return RangeUnknown, unusable.Error()
	case l.asked() == 0 && checks < rangesToTell:
		return RangeUnasked, ""
	case l.asked() == 0:
		return RangeNeverAsked, fmt.Sprintf("iterators asked %d times on other levels", checks)
	case empty >= emptyToTell && l.FalsePositives > empty/2:
		return RangePasses, did
	}
	return Good, did
}

// addRanges adds up what a table's filters of ranges take that are asked, and for how many keys.
func (l *Level) addRanges(t *Table) {
	for _, f := range t.Ranges {
		if f.State == rangeAsked {
			l.RangeBytes += f.Bytes
		}
	}
	l.keys += t.keys
	if l.keys > 0 {
		l.RangeBitsPerKey = 8 * float64(l.RangeBytes) / float64(l.keys)
	}
}
