package report

// FilterVerdict says in words how well a table's filter works.
type FilterVerdict string

// The verdicts, worst first. FilterVerdict.Advice says what to do.
const (
	// VerdictDamaged: "damaged", the filter or its table cannot be read.
	VerdictDamaged FilterVerdict = "damaged"
	// VerdictDenies: "denies stored keys", so lookups miss them.
	VerdictDenies FilterVerdict = "denies stored keys"
	// VerdictUnknown: "unknown filter policy", so the filter is ignored.
	VerdictUnknown FilterVerdict = "unknown filter policy"
	// VerdictNoFilter: "no filter", so every lookup in its key range reads the table.
	VerdictNoFilter FilterVerdict = "no filter"
	// VerdictSaturated: "saturated", half of the absent keys match.
	VerdictSaturated FilterVerdict = "saturated"
	// VerdictCollisions: "keys collide in the 32-bit hash", as decimal counters do.
	VerdictCollisions FilterVerdict = "keys collide in the 32-bit hash"
	// VerdictHighRate: "more false positives than predicted", without a known reason.
	VerdictHighRate FilterVerdict = "more false positives than predicted"
	// VerdictNeverQueried: "never queried", no lookup reached the level.
	VerdictNeverQueried FilterVerdict = "never queried"
	// VerdictGood: "good", the measured rate agrees with the prediction.
	VerdictGood FilterVerdict = "good"
	// VerdictOff: "filters are off", by filter.None.
	VerdictOff FilterVerdict = "filters are off"
	// VerdictUnopened: "not opened yet", so nothing is known about the filter.
	VerdictUnopened FilterVerdict = "not opened yet"
)

// The verdicts on range filters, in addition to VerdictDamaged and VerdictGood.
const (
	// VerdictRangeUnknown: "unknown range filter policy", so the filter is ignored.
	VerdictRangeUnknown FilterVerdict = "unknown range filter policy"
	// VerdictRangeMatchesEmpty: "matches empty ranges", so it saves little.
	VerdictRangeMatchesEmpty FilterVerdict = "matches empty ranges"
	// VerdictRangeNeverQueried: "never queried by iterators" on this level.
	VerdictRangeNeverQueried FilterVerdict = "never queried by iterators"
	// VerdictRangeNotQueried: "not queried yet", by any iterator.
	VerdictRangeNotQueried FilterVerdict = "not queried yet"
)

// Advice returns what to do about a verdict.
func (v FilterVerdict) Advice() string {
	switch v {
	case VerdictDamaged:
		return "run Check, and Repair if it reports faults; if only the filter is damaged, UpgradeFilters writes it again"
	case VerdictDenies:
		return "lookups miss existing keys: open with filter.None and run Compact, which rewrites all tables; then report " +
			"the defect"
	case VerdictUnknown:
		return "set Options.Filters.Policy to the policy of that name, or run UpgradeFilters to write filters of a known " +
			"policy"
	case VerdictNoFilter:
		return "nothing if intended (filter.None, or a budget without bits for the level); otherwise run UpgradeFilters to " +
			"write filters"
	case VerdictSaturated:
		return "half of the absent keys match: use more bits per key, or a larger Filters.Budget, and run UpgradeFilters"
	case VerdictCollisions:
		return "more bits do not help: use filter.NewCacheLineBloomPolicy, filter.NewDualBloomPolicy or filter.FusePolicy, " +
			"whose hash has 64 bits, and run UpgradeFilters"
	case VerdictHighRate:
		return "run Check: the filter may belong to other keys; Compact writes it again"
	case VerdictNeverQueried:
		return "nothing, or use fewer bits: lookups end in levels above, or their keys are elsewhere"
	case VerdictOff:
		return "set Options.Filters.Policy to use filters"
	case VerdictRangeUnknown:
		return "set Options.Filters.RangePolicies to the policy of that name (sievedb: -ranges NAME) to use the filter; " +
			"Compact writes tables without it"
	case VerdictRangeMatchesEmpty:
		return "use more bits, or a policy whose prefixes or numbers fit the bounds of iterators, and run UpgradeFilters"
	case VerdictRangeNeverQueried:
		return "nothing, or remove Options.Filters.RangePolicies: iterators with both bounds (LowerBound and UpperBound) " +
			"do not reach this level"
	case VerdictRangeNotQueried:
		return "nothing: only iterators with both bounds (LowerBound and UpperBound) query it, and only those of the " +
			"reporting process are counted"
	case VerdictUnopened:
		return "request probes, which open the table"
	}
	return "nothing"
}
