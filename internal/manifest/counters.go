package manifest

import (
	"sync/atomic"
	"unsafe"
)

// Counters counts what lookups did at one table. Goroutines on different cores
// add to different cache lines (stripes, see Lane), so that counting does not make
// readers wait for each other; a reader of the sums visits all stripes.
//
// A read has one of four outcomes; how often the table was consulted, and how
// often its filter was asked, are sums of them, exact by construction.
type Counters struct {
	stripes [numStripes]stripe
}

// numStripes trades memory (64 bytes a stripe and table) for contention. The
// allocator aligns an array of eight to its size, and so each stripe to a line.
const numStripes = 8

// stripe is one cache line.
type stripe [numCounters]atomic.Uint64

// Counter names one of the numbers of Counters.
type Counter int

// The counters of a table.
const (
	FilterNegatives      Counter = iota // the filter ruled the table out
	FilterTruePositives                 // the filter passed and the key was there
	FilterFalsePositives                // the filter passed and the key was not there
	UnfilteredReads                     // no usable filter
	IndexReads                          // index blocks read from disk
	BlocksFromCache                     // data blocks found in the block cache
	BlocksFromDisk                      // data blocks read from disk
	BytesFromDisk                       // bytes of both

	numCounters = 8
)

// Add adds n to counter c. The lane is that of the calling goroutine.
func (t *Counters) Add(lane Lane, c Counter, n uint64) {
	t.stripes[lane.stripe(uintptr(unsafe.Pointer(t))/unsafe.Sizeof(*t))][c].Add(n)
}

// CounterSums are the sums of a table's counters.
type CounterSums [numCounters]uint64

// Sums returns the present sums.
func (t *Counters) Sums() (sums CounterSums) {
	for s := range t.stripes {
		for c := range sums {
			sums[c] += t.stripes[s][c].Load()
		}
	}
	return sums
}

// Take returns the sums and subtracts them, so that what is counted from now on
// starts at zero and nothing is lost or counted twice.
func (t *Counters) Take() (sums CounterSums) {
	for s := range t.stripes {
		for c := range sums {
			sums[c] += t.stripes[s][c].Swap(0)
		}
	}
	return sums
}

// Plus adds o to s.
func (s *CounterSums) Plus(o CounterSums) {
	for c := range s {
		s[c] += o[c]
	}
}

// A Lane says in which stripe of each set of counters a lookup counts. Its lowest
// five bits are no part of what tables use, and good for other counters.
type Lane uint64

// OwnLane returns a number that differs between goroutines that run at the same
// time. Goroutines have separate stacks, so the address of a local variable tells
// them apart; where the stripes of two collide they merely share a cache line.
func OwnLane() Lane {
	var local byte
	return laneOf(uintptr(unsafe.Pointer(&local)))
}

// laneOf mixes as well as a hash does: stacks lie powers of two apart, and a few
// bits of their addresses, taken as they are or multiplied once, sent two
// goroutines to one stripe of eight in a third of the trials, and for as long as
// they lived.
func laneOf(stack uintptr) Lane {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / the golden ratio
	h := uint64(stack>>12) * golden
	h ^= h >> 32
	h *= golden
	return Lane(h ^ h>>32)
}

// stripe takes other bits of the lane at other places in memory: two goroutines
// that collide do so in one table of eight.
func (l Lane) stripe(table uintptr) uintptr {
	return uintptr(l>>(5+table%32)) % numStripes
}
