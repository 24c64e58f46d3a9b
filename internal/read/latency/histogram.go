package latency

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/report"
)

const (
	// perDoubling is the number of buckets between a duration and twice that duration. It is the
	// reciprocal of a bucket's relative error.
	perDoubling = 16
	// longest is the number of bits of the longest duration that is distinguished, in nanoseconds:
	// 36 minutes.
	longest    = 41
	numBuckets = (longest-5)*perDoubling + 2*perDoubling
	lanes      = 4
)

// Histogram counts durations. The zero Histogram is empty.
type Histogram struct {
	lanes [lanes]atomic.Pointer[lane] // each is nil until it is used
}

// lane has the durations that some of the goroutines recorded.
type lane struct {
	buckets [numBuckets]atomic.Uint64
	sum     atomic.Uint64 // nanoseconds
}

// Record counts a duration.
func (h *Histogram) Record(took time.Duration) {
	at := &h.lanes[counters.Lane()%lanes]
	l := at.Load()
	if l == nil {
		at.CompareAndSwap(nil, new(lane))
		l = at.Load()
	}
	nanos := uint64(max(took, 0))
	l.buckets[bucketOf(nanos)].Add(1)
	l.sum.Add(nanos)
}

// bucketOf returns the number of the bucket of a duration. Durations below 2*perDoubling have buckets of their own.
func bucketOf(nanos uint64) int {
	nanos = min(nanos, 1<<longest-1)
	shift := max(0, bits.Len64(nanos)-5)
	return shift*perDoubling + int(nanos>>shift)
}

// boundsOf returns the durations of a bucket: from, inclusive, and to, exclusive.
func boundsOf(bucket int) (from, to time.Duration) {
	shift := max(0, bucket/perDoubling-1)
	from = time.Duration(bucket-shift*perDoubling) << shift
	return from, from + 1<<shift
}

// Report returns what was recorded.
func (h *Histogram) Report() report.LatencyHistogram {
	var r report.LatencyHistogram
	var counts [numBuckets]uint64
	for i := range h.lanes {
		l := h.lanes[i].Load()
		if l == nil {
			continue
		}
		for b := range l.buckets {
			counts[b] += l.buckets[b].Load()
		}
		r.Sum += time.Duration(l.sum.Load())
	}
	for b, n := range counts {
		if n > 0 {
			from, to := boundsOf(b)
			r.Count += n
			r.Buckets = append(r.Buckets, report.LatencyBucket{From: from, To: to, Count: n})
		}
	}
	return r
}
