package db

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/manifest"
)

// dbCounters are the store's numbers beside those that tables keep themselves.
type dbCounters struct {
	_       [64]byte // what is before this may be written
	lookups [lookupStripes]lookupStripe

	writes, writeBytes, logBytes, logSyncs   atomic.Uint64
	flushes, flushBytes                      atomic.Uint64
	compactions, trivialMoves                atomic.Uint64
	compactionBytesRead, compactionBytesWrit atomic.Uint64

	retired retiredCounters
}

// lookupStripes bounds the contention of counting lookups, as
// manifest.Counters does for tables.
const lookupStripes = 32 // what a Lane has bits for

// lookupStripe is padded with the width of a cache line, so that two of them share
// none wherever they begin, and the last one none with what writers count.
type lookupStripe struct {
	gets, found, memtableSearches, memtableHits atomic.Uint64
	_                                           [64]byte
}

func (c *dbCounters) lookup(lane manifest.Lane) *lookupStripe {
	return &c.lookups[lane%lookupStripes]
}

// retiredCounters keeps what tables counted on a level that they have left. A
// lookup that is still at a removed table goes on counting, so a table's
// counters are read until the garbage collector has seen that nobody can reach
// the table any more; then their sums are folded in.
type retiredCounters struct {
	mu     sync.Mutex
	folded [NumLevels]manifest.CounterSums
	fading map[*manifest.Counters]int // level
}

// moved credits level with what f counted there: it goes to another level as it
// is, where its counters start anew.
func (r *retiredCounters) moved(level int, f *manifest.FileMeta) {
	sums := f.Counters.Take()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folded[level].Plus(sums)
}

// retire takes over the counters of a table that was removed from level.
func (r *retiredCounters) retire(level int, f *manifest.FileMeta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fading == nil {
		r.fading = map[*manifest.Counters]int{}
	}
	r.fading[f.Counters] = level
	runtime.AddCleanup(f, func(counters *manifest.Counters) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.folded[level].Plus(counters.Sums())
		delete(r.fading, counters)
	}, f.Counters)
}

// sums returns what tables that left counted, by level.
func (r *retiredCounters) sums() [NumLevels]manifest.CounterSums {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.folded
	for counters, level := range r.fading {
		all[level].Plus(counters.Sums())
	}
	return all
}
