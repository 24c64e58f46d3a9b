package manifest

import (
	"sync/atomic"
	"unsafe"
)

// Counters counts what lookups did at one table. Goroutines on different cores
// add to different cache lines (stripes), so that counting does not make
// readers wait for each other; a reader of the sums visits all stripes.
//
// A read has one of four outcomes; how often the table was consulted, and how
// often its filter was asked, are sums of them, exact by construction.
type Counters struct {
	stripes [numStripes]stripe
}

// numStripes trades memory (64 bytes a stripe and table) for contention.
const numStripes = 4

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

// Add adds n to counter c.
func (t *Counters) Add(c Counter, n uint64) { t.stripes[StripeIndex(numStripes)][c].Add(n) }

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

// StripeIndex returns a number below n, a power of two, that tends to differ
// between goroutines that run at the same time. Goroutines have separate
// stacks, so the address of a local variable tells them apart at no cost; where
// two collide they merely share a cache line.
func StripeIndex(n uintptr) uintptr {
	var local byte
	p := uintptr(unsafe.Pointer(&local))
	return (p>>11 ^ p>>15) & (n - 1)
}
