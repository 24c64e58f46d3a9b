package counters

import (
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// Lookups are counted by level, once each. The results of single tables' filters are counted for one in SampledOneIn
// lookups, by querying the filters again. On average that takes one percent of a lookup's time; the other lookups only
// do a multiplication. MultiGet has each table's result anyway, and counts it immediately.

// SampledOneIn is the number of lookups per sample, a power of two.
const SampledOneIn = 128

// IsSample reports whether the nth lookup of a counter is a sample. The multiples of the golden
// ratio are evenly spread over all 64-bit numbers, and so are those of every step. So a program
// that cycles through the same keys is sampled like any other, and so is a single key that is
// looked up repeatedly; a choice by the key's hash would always or never sample it.
func IsSample(n uint64) bool { return n*0x9e3779b97f4a7c15 <= ^uint64(0)/SampledOneIn }

// SamplesAmong returns, as bits, which of n lookups, at most 32, are samples. before is the number
// of lookups counted before them.
func SamplesAmong(before uint64, n int) (bits uint32) {
	for i := range n {
		if IsSample(before + uint64(i) + 1) {
			bits |= 1 << i
		}
	}
	return bits
}

// SampleTables counts the filter's result for each table that the lookup consulted. answer is the
// table that has the key, or nil. The next lookup of the stripe is measured.
//
//go:noinline
func (c *Stripe) SampleTables(v *version.Version, lookup *sstable.Lookup, answer *version.FileMeta) {
	c.SetDue()
	for _, f := range v.MayHold(lookup.UserKey()) {
		if f == answer {
			CountSample(answer, false, true)
			return
		}
		sampleMiss(f, lookup)
	}
}

// sampleMiss counts the result of a table's filter for an absent key.
func sampleMiss(f *version.FileMeta, lookup *sstable.Lookup) {
	if r := tables.Of(f).Peek(); r != nil { // otherwise it was closed concurrently
		CountSample(f, r.Verdict(lookup) == sstable.FilterNegative, false)
	}
}

// CountSample counts that a table's filter denied a key or, if not, whether the table has the key.
func CountSample(f *version.FileMeta, denied, found bool) {
	sampled := &tables.Of(f).Sampled
	switch {
	case denied:
		sampled.Negatives.Add(1)
	case found:
		sampled.TruePositives.Add(1)
	default:
		sampled.FalsePositives.Add(1)
	}
}
