package counters

import "github.com/sievedb/sievedb/report"

// Fill fills in the counts of lookups of m, which has those of Expiry.
func (t *Totals) Fill(m *report.Metrics) {
	m.Lookups.Count, m.Lookups.Found = t.Gets, t.GetsFound-m.Expiry.Hidden
	m.Lookups.MemtableSearches, m.Lookups.MemtableHits = t.MemtableSearches, t.MemtableHits
	for level := range m.Levels {
		l, from := &m.Levels[level], &t.Levels[level]
		l.FilterNegatives, l.FilterTruePositives, l.FilterFalsePositives =
			from.FilterNegatives, from.FilterTruePositives, from.FilterFalsePositives
		l.FilterChecks, l.Reads, l.RangeChecks = from.FilterChecks(), from.Reads(), from.RangeChecks()
		l.RangeNegatives, l.RangeTruePositives, l.RangeFalsePositives =
			from.RangeNegatives, from.RangeTruePositives, from.RangeFalsePositives
		l.IndexReads, l.BytesFromDisk = from.IndexReads, from.BytesFromDisk
		l.BlocksFromCache, l.BlocksFromDisk = from.BlocksFromCache, from.BlocksFromDisk
	}
}
