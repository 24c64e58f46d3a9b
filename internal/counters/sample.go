package counters

import (
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// Lookups count by level, once each. Which table's filter said what is counted for one
// in SampledOneIn of them, by asking the filters once more: that is a hundredth of the
// time of a lookup in the mean, and nothing more than a multiplication for the others. MultiGet
// has the verdict of each table at hand, and counts it when it comes.

// SampledOneIn is a power of two.
const SampledOneIn = 128

// IsSample says whether the nth lookup that a counter has counted is a sample. The
// multiples of the golden ratio are spread evenly over all 64-bit numbers, those of
// every step among them too: a program that asks the same keys round and round is
// sampled like any other, and so is one key that is asked again and again, which a
// choice by the key's hash would always take or never.
func IsSample(n uint64) bool { return n*0x9e3779b97f4a7c15 <= ^uint64(0)/SampledOneIn }

// SamplesAmong returns which of n lookups are samples, at most 32, as bits; so many were
// counted before them.
func SamplesAmong(before uint64, n int) (bits uint32) {
	for i := range n {
		if IsSample(before + uint64(i) + 1) {
			bits |= 1 << i
		}
	}
	return bits
}

// SampleTables counts for each table that the lookup came to what its filter said.
// answer is the table that holds the key, nil for none.
//
//go:noinline
func SampleTables(v *manifest.Version, lookup *sstable.Lookup, answer *manifest.FileMeta) {
	for _, f := range v.MayHold(lookup.UserKey()) {
		if f == answer {
			CountSample(answer, false, true)
			return
		}
		sampleMiss(f, lookup)
	}
}

// sampleMiss counts what the filter of a table says to a key that is not there.
func sampleMiss(f *manifest.FileMeta, lookup *sstable.Lookup) {
	if r := tables.Of(f).Peek(); r != nil { // else closed meanwhile
		CountSample(f, r.Verdict(lookup) == sstable.FilterNegative, false)
	}
}

// CountSample counts for a table that its filter denied a key, or that the key is there or is not.
func CountSample(f *manifest.FileMeta, denied, found bool) {
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
