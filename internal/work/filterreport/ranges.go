package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// rangeAsked is the state of a range filter that iterators query.
const rangeAsked = "asked"

// rangeReports reports on the range filters of a table with that many keys.
func rangeReports(r *sstable.Reader, keys uint64, level int, c *Counts) (reports []report.RangeFilterReport) {
	for _, f := range r.RangeFilters() {
		one := report.RangeFilterReport{Policy: f.Policy, Bytes: f.Bytes, State: rangeAsked}
		if f.Err != nil {
			one.State = f.Err.Error()
		}
		if keys > 0 {
			one.BitsPerKey = 8 * float64(f.Bytes) / float64(keys)
		}
		one.Verdict, one.Detail = judgeRanges(f.Err, &c.Levels[level].Ranges, c.rangeChecks())
		one.Advice = one.Verdict.Advice()
		reports = append(reports, one)
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
func judgeRanges(unusable error, l *Verdicts, checks uint64) (verdict report.FilterVerdict, detail string) {
	did := fmt.Sprintf("queried %d times on the level: %d tables skipped, %d with keys in the range, %d without",
		l.checks(), l.Negatives, l.TruePositives, l.FalsePositives)
	empty := l.Negatives + l.FalsePositives
	switch {
	case errors.Is(unusable, base.ErrCorruption):
		return report.VerdictDamaged, unusable.Error()
	case unusable != nil:
		return report.VerdictRangeUnknown, unusable.Error()
	case l.checks() == 0 && checks < minRangeChecks:
		return report.VerdictRangeNotQueried, ""
	case l.checks() == 0:
		return report.VerdictRangeNeverQueried, fmt.Sprintf("iterators queried %d times on other levels", checks)
	case empty >= minEmptyTables && l.FalsePositives > empty/2:
		return report.VerdictRangeMatchesEmpty, did
	}
	return report.VerdictGood, did
}

// addRanges adds the size of a table's usable range filters. keys are those of all tables so far.
func addRanges(l *report.LevelFilterReport, t *report.TableFilterReport, keys uint64) {
	for _, f := range t.Ranges {
		if f.State == rangeAsked {
			l.RangeBytes += f.Bytes
		}
	}
	if keys > 0 {
		l.RangeBitsPerKey = 8 * float64(l.RangeBytes) / float64(keys)
	}
}
