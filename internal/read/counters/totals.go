package counters

import "github.com/sievedb/sievedb/internal/disk/version"

// Totals are the sums of the counters of lookups and iterators.
type Totals struct {
	Gets, GetsFound, MemtableSearches, MemtableHits uint64

	Levels [version.NumLevels]LevelTotals
}

// LevelTotals are the sums for one level. The fields are those of levelCounters.
type LevelTotals struct {
	FilterNegatives, FilterTruePositives, FilterFalsePositives uint64
	UnfilteredReads                                            uint64
	IndexReads, BlocksFromCache, BlocksFromDisk, BytesFromDisk uint64
	RangeNegatives, RangeTruePositives, RangeFalsePositives    uint64
}

// FilterChecks returns how many key filters were queried.
func (l *LevelTotals) FilterChecks() uint64 {
	return l.FilterNegatives + l.FilterTruePositives + l.FilterFalsePositives
}

// Reads returns how many tables were consulted.
func (l *LevelTotals) Reads() uint64 { return l.FilterChecks() + l.UnfilteredReads }

// RangeChecks returns how many range filters were queried.
func (l *LevelTotals) RangeChecks() uint64 {
	return l.RangeNegatives + l.RangeTruePositives + l.RangeFalsePositives
}

// addTo adds the stripe's counters to t.
func (c *Stripe) addTo(t *Totals) {
	for p := range Path(numPaths - 1) {
		c.addPath(t, p)
	}
	c.addPath(t, numPaths-1)
	t.Gets += c.gets.Load()
	t.GetsFound += c.getsFound.Load()
	t.MemtableSearches += c.memtableSearches.Load()
	t.MemtableHits += c.memtableHits.Load()
	for level := range c.levels {
		l, from := &t.Levels[level], &c.levels[level]
		l.FilterNegatives += from.filterNegatives.Load()
		l.FilterTruePositives += from.filterTruePositives.Load()
		l.FilterFalsePositives += from.filterFalsePositives.Load()
		l.UnfilteredReads += from.unfilteredReads.Load()
		l.IndexReads += from.indexReads.Load()
		l.BlocksFromCache += from.blocksFromCache.Load()
		l.BlocksFromDisk += from.blocksFromDisk.Load()
		l.BytesFromDisk += from.bytesFromDisk.Load()
	}
}

// addPath adds the lookups with the given path to t.
func (c *Stripe) addPath(t *Totals, p Path) {
	absent, found := c.absent[p].Load(), c.found[p].Load()
	if absent|found == 0 {
		return
	}
	t.Gets += absent + found
	t.GetsFound += found
	for level := range t.Levels {
		t.Levels[level].FilterNegatives += p.tables(level) * (absent + found)
	}
	at := &t.Levels[p.last()]
	at.FilterNegatives -= found // that table had the key
	at.FilterTruePositives += found
	at.BlocksFromCache += found
}
