package filterreport

// The verdicts, worst first. Advice says what to do.
const (
	Damaged      = "damaged"
	Denies       = "denies stored keys"
	Unknown      = "unknown filter policy"
	NoFilter     = "no filter"
	Saturated    = "saturated"
	Collisions   = "keys collide in the 32-bit hash"
	HighRate     = "more false positives than predicted"
	NeverQueried = "never queried"
	Good         = "good"
	Off          = "filters are off"
	Unopened     = "not opened yet"
)

// The verdicts on range filters, in addition to Damaged and Good.
const (
	RangeUnknown      = "unknown range filter policy"
	RangeMatchesEmpty = "matches empty ranges"
	RangeNeverQueried = "never queried by iterators"
	RangeNotQueried   = "not queried yet"
)

// Advice returns what to do about a verdict.
func Advice(verdict string) string {
	switch verdict {
	case Damaged:
		return "run Check, and Repair if it reports faults; if only the filter is damaged, UpgradeFilters writes it again"
	case Denies:
		return "lookups miss existing keys: open with filter.None and run Compact, which rewrites all tables; then report " +
			"the defect"
	case Unknown:
		return "set Options.Filters.Policy to the policy of that name, or run UpgradeFilters to write filters of a known " +
			"policy"
	case NoFilter:
		return "nothing if intended (filter.None, or a budget without bits for the level); otherwise run UpgradeFilters to " +
			"write filters"
	case Saturated:
		return "half of the absent keys match: use more bits per key, or a larger Filters.Budget, and run UpgradeFilters"
	case Collisions:
		return "more bits do not help: use filter.NewCacheLineBloomPolicy, filter.NewDualBloomPolicy or filter.FusePolicy, " +
			"whose hash has 64 bits, and run UpgradeFilters"
	case HighRate:
		return "run Check: the filter may belong to other keys; Compact writes it again"
	case NeverQueried:
		return "nothing, or use fewer bits: lookups end in levels above, or their keys are elsewhere"
	case Off:
		return "set Options.Filters.Policy to use filters"
	case RangeUnknown:
		return "set Options.Filters.RangePolicies to the policy of that name (sievedb: -ranges NAME) to use the filter; " +
			"Compact writes tables without it"
	case RangeMatchesEmpty:
		return "use more bits, or a policy whose prefixes or numbers fit the bounds of iterators, and run UpgradeFilters"
	case RangeNeverQueried:
		return "nothing, or remove Options.Filters.RangePolicies: iterators with both bounds (LowerBound and UpperBound) " +
			"do not reach this level"
	case RangeNotQueried:
		return "nothing: only iterators with both bounds (LowerBound and UpperBound) query it, and only those of the " +
			"reporting process are counted"
	case Unopened:
		return "request probes, which open the table"
	}
	return "nothing"
}
