package db

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
)

// dbCounters are the store's numbers, but for those of lookups.
type dbCounters struct {
	writes, writeBytes, logBytes, logSyncs atomic.Uint64
	flushes, flushBytes                    atomic.Uint64
	loads, loadTables, loadBytes           atomic.Uint64
}

// lookupCounters are the numbers of lookups. They are an allocation of their own,
// in which the garbage collector has nothing to look for.
type lookupCounters [lookupStripes]lookupStripe

// lookupStripes bounds the contention of counting lookups: goroutines on different
// cores add to different stripes (see ownLane), so that readers do not wait for each
// other.
const lookupStripes = 32

// lookupStripe is what the lookups of some goroutines counted. Nearly all of them
// count once, whatever they did: an atomic addition costs about as much as a probe of
// a filter, and until it is done the processor begins no later load. It is
// padded with the width of a cache line, so that two of them share none wherever
// they begin, and the last one none with what writers count.
type lookupStripe struct {
	// absent counts lookups to which no table had an answer, by the tables whose
	// filters ruled the key out. found counts those to which a table had a value, in
	// a block of the cache and behind a filter: it is the last of the path, and the
	// others were ruled out. What else lookups did is counted below, each thing by
	// itself.
	absent, found [numPaths]atomic.Uint64

	gets, getsFound, memtableSearches, memtableHits atomic.Uint64

	levels [NumLevels]levelCounters
	_      [64]byte
}

// levelCounters count what lookups did at the tables of one level.
type levelCounters struct {
	filterNegatives      atomic.Uint64 // the filter ruled the table out
	filterTruePositives  atomic.Uint64 // the filter passed and the key was there
	filterFalsePositives atomic.Uint64 // the filter passed and the key was not there
	unfilteredReads      atomic.Uint64 // no usable filter
	indexReads           atomic.Uint64 // index blocks read from disk
	blocksFromCache      atomic.Uint64 // data blocks found in the block cache
	blocksFromDisk       atomic.Uint64 // data blocks read from disk
	bytesFromDisk        atomic.Uint64 // bytes of both
}

// own returns the stripe of the calling goroutine.
func (c *lookupCounters) own() *lookupStripe { return &c[ownLane()%lookupStripes] }

// tablePath is a set of tables by their levels: how many of level 0, up to three, in
// its two lowest bits, and a bit for one of each other level.
type tablePath uint8

const numPaths = 1 << (2 + NumLevels - 1)

// hasRoom says whether a table of level can be added to p.
func (p tablePath) hasRoom(level int) bool {
	if level == 0 {
		return p&3 < 3
	}
	return p&(2<<level) == 0
}

// with adds a table of level to p, which has room for it.
func (p tablePath) with(level int) tablePath {
	if level == 0 {
		return p + 1
	}
	return p | 2<<level
}

// tables returns how many tables of a level are in p.
func (p tablePath) tables(level int) uint64 {
	if level == 0 {
		return uint64(p & 3)
	}
	return uint64(p >> (level + 1) & 1)
}

// last returns the deepest level that is in p.
func (p tablePath) last() int {
	for level := NumLevels - 1; level > 0; level-- {
		if p.tables(level) > 0 {
			return level
		}
	}
	return 0
}

// countNegatives counts by themselves the tables that were ruled out.
func (c *lookupStripe) countNegatives(p tablePath) {
	for level := range c.levels {
		if n := p.tables(level); n > 0 {
			c.levels[level].filterNegatives.Add(n)
		}
	}
}

// countAnswer counts a lookup that a memtable or a table answered, by itself, and the
// tables that were ruled out before. It returns how many such lookups there were.
func (c *lookupStripe) countAnswer(ruledOut tablePath, kind base.Kind) uint64 {
	n := c.gets.Add(1)
	if kind == base.KindSet {
		c.getsFound.Add(1)
	}
	c.countNegatives(ruledOut)
	return n
}

// countRead counts by itself what a lookup did at a table of a level.
func (c *lookupStripe) countRead(level int, res *sstable.Result) {
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

// addTo adds to m what the stripe has counted.
func (c *lookupStripe) addTo(m *Metrics) {
	for p := range tablePath(numPaths - 1) {
		c.addPath(m, p)
	}
	c.addPath(m, numPaths-1)
	m.Gets += c.gets.Load()
	m.GetsFound += c.getsFound.Load()
	m.MemtableSearches += c.memtableSearches.Load()
	m.MemtableHits += c.memtableHits.Load()
	for level := range c.levels {
		l, from := &m.Levels[level], &c.levels[level]
		l.FilterNegatives += from.filterNegatives.Load()
		l.FilterTruePositives += from.filterTruePositives.Load()
		l.FilterFalsePositives += from.filterFalsePositives.Load()
		l.Reads += from.unfilteredReads.Load()
		l.IndexReads += from.indexReads.Load()
		l.BlocksFromCache += from.blocksFromCache.Load()
		l.BlocksFromDisk += from.blocksFromDisk.Load()
		l.BytesFromDisk += from.bytesFromDisk.Load()
	}
}

// addPath adds to m the lookups of one path.
func (c *lookupStripe) addPath(m *Metrics, p tablePath) {
	absent, found := c.absent[p].Load(), c.found[p].Load()
	if absent|found == 0 {
		return
	}
	m.Gets += absent + found
	m.GetsFound += found
	for level := range m.Levels {
		m.Levels[level].FilterNegatives += p.tables(level) * (absent + found)
	}
	at := &m.Levels[p.last()]
	at.FilterNegatives -= found // that table had the key
	at.FilterTruePositives += found
	at.BlocksFromCache += found
}
