package share

import (
	"math"
	"runtime"
	"runtime/metrics"
)

// The garbage collector frees memtables, because lookups count no references. By itself it lets as much garbage gather
// as there is live memory: several full memtables. So a flush requests a collection if that is cheap compared with the
// flush. Its cost is proportional to the memory that holds pointers. A memtable has none, and the block cache hardly
// any. In a program with a large heap the memtable is a small part of the garbage, and nothing is requested.

// collectFraction limits the memory with pointers that a collection may have to scan, as a
// part of the memtable. At about a nanosecond a byte, a quarter of 16 MiB takes 4 ms of the
// 200 ms that the flush and compaction of the memtable take.
const collectFraction = 4

// collectFlushed frees flushed memtables of memtableBytes together, which only running lookups refer
// to, if that is cheap. It reports whether it was.
func collectFlushed(memtableBytes int) bool {
	if !worthCollecting(uint64(memtableBytes), readMetric("/gc/scan/heap:bytes"), readMetric("/gc/gogc:percent")) {
		return false
	}
	runtime.GC()
	return true
}

// worthCollecting decides: scannable is the number of heap bytes with pointers, percent the
// GOGC setting, whose greatest value means off.
func worthCollecting(memtableBytes, scannable, percent uint64) bool {
	return percent != math.MaxUint64 && scannable <= memtableBytes/collectFraction
}

// readMetric returns one of the runtime's numbers, or the greatest number if the runtime does not have it.
func readMetric(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return math.MaxUint64
	}
	return sample[0].Value.Uint64()
}
