package db

import "github.com/sievedb/sievedb/internal/filterreport"

// FilterVerdict says in words how well a table's filter works.
type FilterVerdict string

// The verdicts, the worse ones first. FilterVerdict.Advice says what to do.
const (
	VerdictDamaged    FilterVerdict = filterreport.Damaged
	VerdictDenies     FilterVerdict = filterreport.Denies
	VerdictUnknown    FilterVerdict = filterreport.Unknown
	VerdictNoFilter   FilterVerdict = filterreport.NoFilter
	VerdictSaturated  FilterVerdict = filterreport.Saturated
	VerdictCollisions FilterVerdict = filterreport.Collisions
	VerdictErrs       FilterVerdict = filterreport.Errs
	VerdictNeverAsked FilterVerdict = filterreport.NeverAsked
	VerdictGood       FilterVerdict = filterreport.Good
	VerdictOff        FilterVerdict = filterreport.Off
	VerdictUnopened   FilterVerdict = filterreport.Unopened
)

// The verdicts on range filters, in addition to VerdictDamaged and VerdictGood.
const (
	VerdictRangeUnknown    FilterVerdict = filterreport.RangeUnknown
	VerdictRangePasses     FilterVerdict = filterreport.RangePasses
	VerdictRangeNeverAsked FilterVerdict = filterreport.RangeNeverAsked
	VerdictRangeUnasked    FilterVerdict = filterreport.RangeUnasked
)

// Advice returns what to do about a verdict.
func (v FilterVerdict) Advice() string { return filterreport.Advice(string(v)) }
