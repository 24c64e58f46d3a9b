package latency

import (
	"time"

	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/report"
)

// Set has the histograms of a store.
type Set struct {
	Get         Histogram
	Put, Commit Writes
	Fsync       Histogram
}

// Writes has separate histograms for writes that are synced and for others.
type Writes struct{ plain, synced Histogram }

// Report returns what was recorded.
func (s *Set) Report() report.LatencyMetrics {
	return report.LatencyMetrics{
		Get: s.Get.Report(), Fsync: s.Fsync.Report(),
		Put: s.Put.plain.Report(), SyncedPut: s.Put.synced.Report(),
		Commit: s.Commit.plain.Report(), SyncedCommit: s.Commit.synced.Report(),
	}
}

// origin is when Moments begin. It has a monotonic clock reading, which is cheaper to compare with
// than to take another time.Now.
var origin = time.Now()

// Moment is when a measured event began, or 0 if the event is not measured.
type Moment time.Duration

// Now returns the present moment. It is not inlined, so that its callers are, which seldom call it.
//
//go:noinline
func Now() Moment {
	if m := Moment(time.Since(origin)); m != 0 {
		return m
	}
	return 1
}

// Start begins an event. It is measured if it is synced, or if n, which increases from one event to
// the next, is a sample.
func Start(synced bool, n uint64) Moment {
	if synced || counters.IsSample(n) {
		return Now()
	}
	return 0
}

// End records the event that began at m in h, if it is measured.
func (h *Histogram) End(m Moment) {
	if m != 0 {
		h.Record(time.Duration(Now() - m))
	}
}

// End records a write that began at m, if it is measured and did not fail.
func (w *Writes) End(m Moment, synced bool, err error) {
	switch {
	case m == 0 || err != nil:
	case synced:
		w.synced.End(m)
	default:
		w.plain.End(m)
	}
}
