package report

import (
	"math"
	"time"
)

// LatencyMetrics says how long calls took, from the call to the return, and how long their parts did. One in
// LatencySample of the events that do not wait for a sync is measured, and each event that does.
type LatencyMetrics struct {
	// Get measures Get, GetTo and Has, of snapshots and transactions too: one call in
	// LatencySample, whether a value was found or not. MultiGet and iterators are not measured.
	Get LatencyHistogram
	// Put measures Put, Delete, Apply and the commits of transactions with NoSync or Buffered: one
	// call in LatencySample. SyncedPut measures each one that waits for a sync, and SyncLog. Both
	// include the wait for other writers and write stalls. Calls that failed are not measured, nor
	// is a DeleteRange that writes tables instead of a record of the log.
	Put, SyncedPut LatencyHistogram
	// Commit measures what the leader of a group does for all of its writers: it writes the record to the log and the
	// entries to the memtable. SyncedCommit measures each group that is synced, with the fsync, and Commit one in
	// LatencySample of the others. Neither includes write stalls.
	Commit, SyncedCommit LatencyHistogram
	// Fsync measures each fsync of the log.
	Fsync LatencyHistogram
}

// Named returns the histograms with their names, in the order of their fields.
func (l *LatencyMetrics) Named() []NamedLatency {
	return []NamedLatency{
		{"get", &l.Get}, {"put", &l.Put}, {"synced put", &l.SyncedPut}, {"commit", &l.Commit},
		{"synced commit", &l.SyncedCommit}, {"fsync", &l.Fsync},
	}
}

// NamedLatency is a histogram of LatencyMetrics with a name for people.
type NamedLatency struct {
	Name string
	*LatencyHistogram
}

// LatencySample is the number of events without a sync for each one that is measured: reading the
// clock for all of them would make the fastest ones slower by half.
const LatencySample = 128

// LatencyHistogram has measured durations by length. The zero LatencyHistogram is empty.
type LatencyHistogram struct {
	// Count is the number of measured durations, Sum their exact sum.
	Count uint64
	Sum   time.Duration
	// Buckets are the durations by length, the shortest first. Empty buckets are left out.
	Buckets []LatencyBucket
}

// LatencyBucket counts the durations from From, inclusive, to To, exclusive. To is at most a sixteenth (6.25 %), or 1
// ns, above From. A duration above 36 minutes counts in the last bucket before that.
type LatencyBucket struct {
	From, To time.Duration
	Count    uint64
}

// Mean returns the mean of the durations, 0 if there are none.
func (h *LatencyHistogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile returns a duration that a fraction q of the measured durations does not exceed: 0.5 for
// the median, 0.99 for the 99th percentile, 1 for the maximum. It is the longest duration of the
// bucket, so up to 36 minutes it is never below the exact quantile, and above it by less than a
// sixteenth (6.25 %). It is 0 if nothing was measured. A q below 0 counts as 0, and one above 1 as 1.
func (h *LatencyHistogram) Quantile(q float64) time.Duration {
	if !(q > 0) { // NaN too
		q = 0
	}
	const rounded = 1 - 0x1p-50 // 0.07*100 is a little more than 7
	rank := max(1, uint64(math.Ceil(min(q, 1)*float64(h.Count)*rounded)))
	for _, b := range h.Buckets {
		if b.Count >= rank {
			return b.To - 1
		}
		rank -= b.Count
	}
	return 0
}
