package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/sstable"
)

// rangeAsked is the state of a range filter that iterators query.
const rangeAsked = "asked"

// rangeReports reports on the range filters of a table with that many keys.
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
	// minRangeChecks is how often iterators must have queried range filters, on any level,
	// before it is significant that they did not on this one.
	minRangeChecks = 1000
	// minEmptyTables is the number of tables without keys in the range that is needed to judge
	// how often the filter ruled them out.
	minEmptyTables = 100
)

// judgeRanges returns the verdict on a range filter of a level, and the figures for it. unusable is
// why it is not used; checks is how often the range filters of all levels were queried.
func judgeRanges(unusable error, l *Verdicts, checks uint64) (verdict, detail string) {
	did := fmt.Sprintf("queried %d times on the level: %d tables skipped, %d with keys in the range, %d without",
		l.checks(), l.Negatives, l.TruePositives, l.FalsePositives)
	empty := l.Negatives + l.FalsePositives
	switch {
	case errors.Is(unusable, base.ErrCorruption):
		return Damaged, unusable.Error()
	case unusable != nil:
		return RangeUnknown, unusable.Error()
	case l.checks() == 0 && checks < minRangeChecks:
		return RangeNotQueried, ""
	case l.checks() == 0:
		return RangeNeverQueried, fmt.Sprintf("iterators queried %d times on other levels", checks)
	case empty >= minEmptyTables && l.FalsePositives > empty/2:
		return RangeMatchesEmpty, did
	}
	return Good, did
}

// addRanges adds the size of a table's usable range filters, and its keys.
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
