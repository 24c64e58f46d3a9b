package counters

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// Lookups are the counters of lookups. They are a separate allocation without pointers, which the
// garbage collector need not scan.
type Lookups [lookupStripes]Stripe

// lookupStripes limits contention: goroutines on different cores add to different stripes (see
// Lane), so that readers do not wait for each other.
const lookupStripes = 32

// Stripe has the counters for the lookups of some goroutines. Nearly all lookups add to one counter only: an atomic
// addition costs about as much as a probe of a filter, and delays all later loads of the processor. The padding has the
// size of a cache line, so that two stripes never share one, wherever they begin, and the last stripe shares none with
// the counters of writers.
type Stripe struct {
	// absent counts lookups for which no table had an answer, by the tables whose filters ruled the key out. found
	// counts lookups that found a value in a cached block, after the filter of its table matched: that table is the
	// last of the path, and the filters of the others ruled the key out. All other events are counted separately below.
	absent, found [numPaths]atomic.Uint64

	gets, getsFound, memtableSearches, memtableHits atomic.Uint64
	// due says whether the next lookup is to be measured or recorded; see TakeDue.
	due atomic.Uint32

	levels [version.NumLevels]levelCounters
	_      [64]byte
}

// levelCounters count what lookups did at the tables of one level.
type levelCounters struct {
	filterNegatives      atomic.Uint64 // the filter ruled the key out
	filterTruePositives  atomic.Uint64 // the filter matched and the table had the key
	filterFalsePositives atomic.Uint64 // the filter matched and the table did not have the key
	unfilteredReads      atomic.Uint64 // no usable filter
	indexReads           atomic.Uint64 // index blocks read from disk
	blocksFromCache      atomic.Uint64 // data blocks found in the block cache
	blocksFromDisk       atomic.Uint64 // data blocks read from disk
	bytesFromDisk        atomic.Uint64 // bytes of both
}

// Own returns the stripe of the calling goroutine.
func (c *Lookups) Own() *Stripe { return &c[Lane()%lookupStripes] }

// Total returns the sums over all stripes.
func (c *Lookups) Total() *Totals {
	t := &Totals{}
	for i := range c {
		c[i].addTo(t)
	}
	return t
}

// Path is a set of tables by level: the number of tables of level 0, up to three, in its two
// lowest bits, and a bit for one table of each other level.
type Path uint8

const numPaths = 1 << (2 + version.NumLevels - 1)

// HasRoom reports whether a table of level can be added to p.
func (p Path) HasRoom(level int) bool {
	if level == 0 {
		return p&3 < 3
	}
	return p&(2<<level) == 0
}

// With adds a table of level to p, for which HasRoom must be true.
func (p Path) With(level int) Path {
	if level == 0 {
		return p + 1
	}
	return p | 2<<level
}

// tables returns how many tables of a level are in p.
func (p Path) tables(level int) uint64 {
	if level == 0 {
		return uint64(p & 3)
	}
	return uint64(p >> (level + 1) & 1)
}

// last returns the deepest level in p.
func (p Path) last() int {
	for level := version.NumLevels - 1; level > 0; level-- {
		if p.tables(level) > 0 {
			return level
		}
	}
	return 0
}

// Begin counts n lookups that are answered together, and returns the number of lookups counted
// before them in the stripe.
func (c *Stripe) Begin(n int) (before uint64) { return c.gets.Add(uint64(n)) - uint64(n) }

// CountFound counts n of the lookups that Begin counted as found.
func (c *Stripe) CountFound(n int) { c.getsFound.Add(uint64(n)) }

// CountFailed counts a lookup that returned an error.
func (c *Stripe) CountFailed() { c.gets.Add(1) }

// CountMemtable counts a search of a memtable.
func (c *Stripe) CountMemtable(hit bool) {
	c.memtableSearches.Add(1)
	if hit {
		c.memtableHits.Add(1)
	}
}

// CountAbsent counts a lookup for which no table had an answer, and reports whether it is a sample.
func (c *Stripe) CountAbsent(ruledOut Path) (sample bool) {
	return IsSample(c.absent[ruledOut].Add(1))
}

// CountPlain counts a lookup that found a value with a plain result (see Plain), and reports
// whether it is a sample. p ends with the table that had the value.
func (c *Stripe) CountPlain(p Path) (sample bool) { return IsSample(c.found[p].Add(1)) }

// CountAnswer counts a lookup that a memtable or a table answered, and separately the tables that filters ruled out
// before. It returns the number of such lookups, for IsSample: with that call in it, CountAnswer would not be inlined.
func (c *Stripe) CountAnswer(ruledOut Path, kind base.Kind) uint64 {
	n := c.gets.Add(1)
	if kind == base.KindSet {
		c.getsFound.Add(1)
	}
	c.CountNegatives(ruledOut)
	return n
}

// SetDue makes the next lookup of the stripe one to be measured. It is called at the end of each sample, so that the
// choice costs the other lookups one load. What is recorded at a sample does not delay the lookup that is measured.
func (c *Stripe) SetDue() { c.due.Store(DueMeasure) }

// SetDueRecord makes the next lookup of the stripe one to be recorded.
func (c *Stripe) SetDueRecord() { c.due.Store(DueRecord) }

// What TakeDue returns for a lookup that is not like the others.
const (
	DueMeasure = 1 // it is to be measured
	DueRecord  = 2 // it is to be explained and recorded
)

// TakeDue says what is to be done with the lookup that begins, usually nothing: 0.
func (c *Stripe) TakeDue() uint32 {
	if c.due.Load() == 0 {
		return 0
	}
	return c.due.Swap(0)
}

// CountNegatives counts the tables that filters ruled out, by level.
func (c *Stripe) CountNegatives(p Path) {
	for level := range c.levels {
		if n := p.tables(level); n > 0 {
			c.levels[level].filterNegatives.Add(n)
		}
	}
}

// CountDenied counts n tables of a level whose filters denied a key.
func (c *Stripe) CountDenied(level int, n uint64) { c.levels[level].filterNegatives.Add(n) }

// Plain reports whether res is a value found in a cached block after the table's filter matched,
// with nothing else to count.
func Plain(res *sstable.Result) bool {
	return res.Found && res.Filter == sstable.FilterPassed && res.BlockFromCache && !res.BlockFromDisk &&
		!res.IndexRead && res.BytesRead == 0
}

// CountPlainRead counts a read with a plain result separately, by level.
func (c *Stripe) CountPlainRead(level int) {
	c.CountRead(level, &sstable.Result{Found: true, Filter: sstable.FilterPassed, BlockFromCache: true})
}

// CountRead counts a lookup's work in a table of a level separately.
func (c *Stripe) CountRead(level int, res *sstable.Result) {
	l := &c.levels[level]
	switch {
	case res.Filter == sstable.FilterNegative:
		l.filterNegatives.Add(1)
	case res.Filter == sstable.FilterNone:
		l.unfilteredReads.Add(1)
	case res.Found:
		l.filterTruePositives.Add(1)
	default:
		l.filterFalsePositives.Add(1)
	}
	c.CountBlocks(level, res)
}

// CountBlocks counts what a search of a table of level, or of the value table to which its entry refers, read.
func (c *Stripe) CountBlocks(level int, res *sstable.Result) {
	l := &c.levels[level]
	if res.IndexRead {
		l.indexReads.Add(1)
	}
	if res.BlockFromCache {
		l.blocksFromCache.Add(1)
	}
	if res.BlockFromDisk {
		l.blocksFromDisk.Add(1)
	}
	if res.BytesRead > 0 {
		l.bytesFromDisk.Add(uint64(res.BytesRead))
	}
}
