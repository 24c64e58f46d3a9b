package filterreport

// The verdicts, the worse ones first. Advice says what to do.
const (
	Damaged    = "damaged"
	Denies     = "denies stored keys"
	Unknown    = "unreadable dialect"
	NoFilter   = "no filter"
	Saturated  = "saturated"
	Collisions = "keys collide in the 32-bit hash"
	Errs       = "errs more than predicted"
	NeverAsked = "never asked"
	Good       = "good"
	Off        = "filters are off"
	Unopened   = "not opened yet"
)

// The verdicts on filters of ranges, beside Damaged and Good.
const (
	RangeUnknown    = "no policy for it"
	RangePasses     = "passes empty ranges"
	RangeNeverAsked = "never asked by iterators"
	RangeUnasked    = "not asked yet"
)

// Advice returns what to do about a verdict.
func Advice(verdict string) string {
	switch verdict {
	case Damaged:
		return "run Check; what it reports, Repair salvages; if only the filter is damaged, UpgradeFilters makes it anew"
	case Denies:
		return "lookups do not find keys that are there: open with filter.None, and Compact with it, which writes all tables anew; then report the defect"
	case Unknown:
		return "set Options.Filters.Policy to the policy of that name, or UpgradeFilters, which gives the tables filters that are known"
	case NoFilter:
		return "nothing if that is wanted (filter.None, or a budget that had no bits for the level); else UpgradeFilters, which gives them to the tables"
	case Saturated:
		return "half of the absent keys pass: use more bits a key, or a larger Filters.Budget, and UpgradeFilters"
	case Collisions:
		return "no number of bits helps: use filter.NewCacheLineBloomPolicy, filter.NewDualBloomPolicy or filter.FusePolicy, whose hash has 64 bits, and UpgradeFilters"
	case Errs:
		return "run Check: the filter may not be of this table's keys; Compact writes it anew"
	case NeverAsked:
		return "nothing, or fewer bits: lookups end in levels above, or their keys are elsewhere"
	case Off:
		return "set Options.Filters.Policy to have filters asked"
	case RangeUnknown:
		return "set Options.Filters.RangePolicies to the policy of that name (sievedb: -ranges NAME) to have it asked; Compact writes tables without it"
	case RangePasses:
		return "use more bits, or a policy whose prefixes or numbers fit the bounds that iterators have, and UpgradeFilters"
	case RangeNeverAsked:
		return "nothing, or no Options.Filters.RangePolicies: iterators with both bounds (LowerBound and UpperBound) do not come to this level"
	case RangeUnasked:
		return "nothing: only iterators with both bounds (LowerBound and UpperBound) ask it, and only those of the process that reports are counted"
	case Unopened:
		return "ask for probes, which opens it"
	}
	return "nothing"
}
