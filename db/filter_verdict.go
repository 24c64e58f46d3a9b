package db

import (
	"fmt"

	"github.com/sievedb/sievedb/sstable"
)

// FilterVerdict says in words how a table's filter does.
type FilterVerdict string

// The verdicts, the worse ones first. FilterVerdict.Advice says what to do.
const (
	VerdictDamaged    FilterVerdict = "damaged"
	VerdictDenies     FilterVerdict = "denies stored keys"
	VerdictUnknown    FilterVerdict = "unreadable dialect"
	VerdictNoFilter   FilterVerdict = "no filter"
	VerdictSaturated  FilterVerdict = "saturated"
	VerdictCollisions FilterVerdict = "keys collide in the 32-bit hash"
	VerdictErrs       FilterVerdict = "errs more than predicted"
	VerdictNeverAsked FilterVerdict = "never asked"
	VerdictGood       FilterVerdict = "good"
	VerdictOff        FilterVerdict = "filters are off"
	VerdictUnopened   FilterVerdict = "not opened yet"
)

// The verdicts on filters of ranges, beside VerdictDamaged and VerdictGood.
const (
	VerdictRangeUnknown    FilterVerdict = "no policy for it"
	VerdictRangePasses     FilterVerdict = "passes empty ranges"
	VerdictRangeNeverAsked FilterVerdict = "never asked by iterators"
	VerdictRangeUnasked    FilterVerdict = "not asked yet"
)

// Advice returns what to do about a verdict.
func (v FilterVerdict) Advice() string {
	switch v {
	case VerdictDamaged:
		return "run Check; what it reports, Repair salvages; if only the filter is damaged, UpgradeFilters makes it anew"
	case VerdictDenies:
		return "lookups do not find keys that are there: open with filter.None, and Compact with it, which writes all tables anew; then report the defect"
	case VerdictUnknown:
		return "set Options.Filter to the policy of that name, or UpgradeFilters, which gives the tables filters that are known"
	case VerdictNoFilter:
		return "nothing if that is wanted (filter.None, or a budget that had no bits for the level); else UpgradeFilters, which gives them to the tables"
	case VerdictSaturated:
		return "half of the absent keys pass: use more bits a key, or a larger FilterBudget, and UpgradeFilters"
	case VerdictCollisions:
		return "no number of bits helps: use filter.NewCacheLineBloomPolicy, filter.NewDualBloomPolicy or filter.FusePolicy, whose hash has 64 bits, and UpgradeFilters"
	case VerdictErrs:
		return "run Check: the filter may not be of this table's keys; Compact writes it anew"
	case VerdictNeverAsked:
		return "nothing, or fewer bits: lookups end in levels above, or their keys are elsewhere"
	case VerdictOff:
		return "set Options.Filter to have filters asked"
	case VerdictRangeUnknown:
		return "set Options.RangeFilters to the policy of that name (sievedb: -ranges NAME) to have it asked; Compact writes tables without it"
	case VerdictRangePasses:
		return "use more bits, or a policy whose prefixes or numbers fit the bounds that iterators have, and UpgradeFilters"
	case VerdictRangeNeverAsked:
		return "nothing, or no Options.RangeFilters: iterators with both bounds (LowerBound and UpperBound) do not come to this level"
	case VerdictRangeUnasked:
		return "nothing: only iterators with both bounds (LowerBound and UpperBound) ask it, and only those of the process that reports are counted"
	case VerdictUnopened:
		return "ask for probes, which opens it"
	}
	return "nothing"
}

// lookupsToTell is how many lookups a store must have answered before it means
// something that none of them came to a level.
const lookupsToTell = 10000

// judge returns the verdict on a table and the figures behind it. failed is why the
// table could not be probed to the end.
func judge(t *TableFilterReport, status sstable.FilterStatus, hashBits int, m *Metrics, failed error) (v FilterVerdict, detail string) {
	switch {
	case t.Probes.Denied > 0:
		return VerdictDenies, fmt.Sprintf("%d of %d stored keys", t.Probes.Denied, t.Probes.Stored)
	case failed != nil:
		return VerdictDamaged, failed.Error()
	case status.Err != nil: // of the best filter, though another may stand in
		return VerdictDamaged, status.Err.Error()
	}
	switch status.State {
	case sstable.FilterOff:
		return VerdictOff, ""
	case sstable.FilterMissing:
		return VerdictNoFilter, ""
	case sstable.FilterUnknown:
		return VerdictUnknown, fmt.Sprintf("%q", status.Policy)
	}
	if v, detail := judgeRate(t, hashBits); v != VerdictGood {
		return v, detail
	}
	if l := &m.Levels[t.Level]; m.Gets >= lookupsToTell && l.Reads == 0 {
		return VerdictNeverAsked, fmt.Sprintf("none of %d lookups came to level %d", m.Gets, t.Level)
	}
	return VerdictGood, ""
}

// judgeRate compares the measured rate with the predicted one. To be called bad, all of
// the rate's interval must lie beyond twice the prediction and a five-hundredth: less is
// not worth a user's time, and the old name's two hashes make twice the rate.
func judgeRate(t *TableFilterReport, hashBits int) (FilterVerdict, string) {
	const half = 0.5
	rate, low, high := t.Probes.Rate()
	measured := fmt.Sprintf("%.2f %% pass (%.2f to %.2f)", 100*rate, 100*low, 100*high)
	if t.Predicted >= 0 {
		measured += fmt.Sprintf(", %.2f %% predicted", 100*t.Predicted)
	}
	switch {
	case t.Probes.Absent == 0 && t.Predicted >= half:
		return VerdictSaturated, fmt.Sprintf("%.2f %% predicted", 100*t.Predicted)
	case t.Probes.Absent == 0:
		return VerdictGood, ""
	case low >= half && (t.Predicted < 0 || t.Predicted >= half/2):
		return VerdictSaturated, measured
	case t.Predicted < 0 || low <= 2*t.Predicted+0.002:
		return VerdictGood, ""
	case hashBits == 32:
		return VerdictCollisions, measured
	}
	return VerdictErrs, measured
}
