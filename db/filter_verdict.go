package db

import "github.com/sievedb/sievedb/internal/filterreport"

// FilterVerdict says in words how well a table's filter works.
type FilterVerdict string

// The verdicts, worst first. FilterVerdict.Advice says what to do.
const (
	// VerdictDamaged: "damaged", the filter or its table cannot be read.
	VerdictDamaged FilterVerdict = filterreport.Damaged
	// VerdictDenies: "denies stored keys", so lookups miss them.
	VerdictDenies FilterVerdict = filterreport.Denies
	// VerdictUnknown: "unknown filter policy", so the filter is ignored.
	VerdictUnknown FilterVerdict = filterreport.Unknown
	// VerdictNoFilter: "no filter", so every lookup in its key range reads the table.
	VerdictNoFilter FilterVerdict = filterreport.NoFilter
	// VerdictSaturated: "saturated", half of the absent keys match.
	VerdictSaturated FilterVerdict = filterreport.Saturated
	// VerdictCollisions: "keys collide in the 32-bit hash", as decimal counters do.
	VerdictCollisions FilterVerdict = filterreport.Collisions
	// VerdictHighRate: "more false positives than predicted", without a known reason.
	VerdictHighRate FilterVerdict = filterreport.HighRate
	// VerdictNeverQueried: "never queried", no lookup reached the level.
	VerdictNeverQueried FilterVerdict = filterreport.NeverQueried
	// VerdictGood: "good", the measured rate agrees with the prediction.
	VerdictGood FilterVerdict = filterreport.Good
	// VerdictOff: "filters are off", by filter.None.
	VerdictOff FilterVerdict = filterreport.Off
	// VerdictUnopened: "not opened yet", so nothing is known about the filter.
	VerdictUnopened FilterVerdict = filterreport.Unopened
)

// The verdicts on range filters, in addition to VerdictDamaged and VerdictGood.
const (
	// VerdictRangeUnknown: "unknown range filter policy", so the filter is ignored.
	VerdictRangeUnknown FilterVerdict = filterreport.RangeUnknown
	// VerdictRangeMatchesEmpty: "matches empty ranges", so it saves little.
	VerdictRangeMatchesEmpty FilterVerdict = filterreport.RangeMatchesEmpty
	// VerdictRangeNeverQueried: "never queried by iterators" on this level.
	VerdictRangeNeverQueried FilterVerdict = filterreport.RangeNeverQueried
	// VerdictRangeNotQueried: "not queried yet", by any iterator.
	VerdictRangeNotQueried FilterVerdict = filterreport.RangeNotQueried
)

// Advice returns what to do about a verdict.
func (v FilterVerdict) Advice() string { return filterreport.Advice(string(v)) }
