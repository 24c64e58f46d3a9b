package filterreport

import "github.com/sievedb/sievedb/report"

// The verdicts, worst first.
const (
	Damaged      = string(report.VerdictDamaged)
	Denies       = string(report.VerdictDenies)
	Unknown      = string(report.VerdictUnknown)
	NoFilter     = string(report.VerdictNoFilter)
	Saturated    = string(report.VerdictSaturated)
	Collisions   = string(report.VerdictCollisions)
	HighRate     = string(report.VerdictHighRate)
	NeverQueried = string(report.VerdictNeverQueried)
	Good         = string(report.VerdictGood)
	Off          = string(report.VerdictOff)
	Unopened     = string(report.VerdictUnopened)
)

// The verdicts on range filters, in addition to Damaged and Good.
const (
	RangeUnknown      = string(report.VerdictRangeUnknown)
	RangeMatchesEmpty = string(report.VerdictRangeMatchesEmpty)
	RangeNeverQueried = string(report.VerdictRangeNeverQueried)
	RangeNotQueried   = string(report.VerdictRangeNotQueried)
)

// Advice returns what to do about a verdict.
func Advice(verdict string) string { return report.FilterVerdict(verdict).Advice() }
