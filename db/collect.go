package db

import (
	"math"
	"runtime"
	"runtime/metrics"
)

// The garbage collector frees memtables, since lookups count no references. Left
// to itself it lets as much garbage gather as there is live memory: several full
// memtables, of which nothing but the last few bytes was ever of use to it. So a
// collection is asked for when a memtable has been flushed, if it costs next to
// nothing against the flush: what it takes is in proportion to the memory that
// holds pointers, which a memtable does not and the block cache hardly does. In a
// program with a large heap the memtable is a small part of what gathers anyway,
// and nothing is asked for.

// collectFraction is how much memory with pointers may have to be looked through, as
// a part of the memtable. At about a nanosecond a byte a quarter of 16 MiB is 4 ms
// of the 200 that this memtable's flush and compaction take.
const collectFraction = 4

// collectFlushed frees a flushed memtable of so many bytes, which nothing refers to
// any more but lookups, where that is cheap.
func collectFlushed(memtableBytes int) {
	if worthCollecting(uint64(memtableBytes), readMetric("/gc/scan/heap:bytes"), readMetric("/gc/gogc:percent")) {
		runtime.GC()
	}
}

// worthCollecting decides: scannable are the heap's bytes with pointers, percent is
// the GOGC setting, whose greatest value means off.
func worthCollecting(memtableBytes, scannable, percent uint64) bool {
	return percent != math.MaxUint64 && scannable <= memtableBytes/collectFraction
}

// readMetric returns one of the runtime's numbers; the greatest there is for one that
// the runtime does not have.
func readMetric(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return math.MaxUint64
	}
	return sample[0].Value.Uint64()
}
