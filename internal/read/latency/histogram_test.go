package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/report"
)

// Each duration has one bucket, which contains it, and the buckets leave no gap.
func TestBucketsCoverAllDurations(t *testing.T) {
	require.Equal(t, report.LatencySample, counters.SampledOneIn)
	var next time.Duration
	for b := range numBuckets {
		from, to := boundsOf(b)
		require.Equal(t, next, from, "bucket %d begins where the one before ends", b)
		require.LessOrEqual(t, float64(to-from), max(1, float64(from)/perDoubling), "bucket %d is narrow", b)
		require.Equal(t, b, bucketOf(uint64(from)))
		require.Equal(t, b, bucketOf(uint64(to-1)))
		next = to
	}
	require.Equal(t, time.Duration(1)<<longest, next)
	require.Equal(t, numBuckets-1, bucketOf(1<<63), "longer durations count in the last bucket")
}

// Quantiles are those of a sorted list, or longer by less than a sixteenth.
func TestQuantilesAgreeWithASortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, spread := range []uint{1, 10, 30, 40} {
		var h Histogram
		var all []time.Duration
		var sum time.Duration
		for range 1000 {
			d := time.Duration(rnd.Uint64N(1 << rnd.Uint64N(uint64(spread))))
			all = append(all, d)
			sum += d
			h.Record(d)
		}
		slices.Sort(all)
		r := h.Report()
		require.EqualValues(t, len(all), r.Count)
		require.Equal(t, sum, r.Sum)
		require.Equal(t, sum/1000, r.Mean())
		for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
			want := all[max(0, int(q*1000+0.5)-1)]
			got := r.Quantile(q)
			require.GreaterOrEqual(t, got, want, "quantile %g", q)
			require.LessOrEqual(t, float64(got), float64(want)*(1+1.0/perDoubling), "quantile %g", q)
		}
		require.Equal(t, r.Quantile(0), r.Quantile(-1))
		require.Equal(t, r.Quantile(0), r.Quantile(math.NaN()))
		require.Equal(t, r.Quantile(1), r.Quantile(2))
	}
}

// The bug: 0.07*100 is a little more than 7, and the quantile was that of rank 8.
func TestRanksAreNotRoundedUp(t *testing.T) {
	for percent := 1; percent <= 100; percent++ {
		h := report.LatencyHistogram{Count: 100, Buckets: []report.LatencyBucket{
			{From: 1, To: 2, Count: uint64(percent)}, {From: time.Second, To: time.Second + time.Second/16, Count: uint64(100 - percent)},
		}}
		require.EqualValues(t, 1, h.Quantile(float64(percent)/100))
	}
}

func TestAnEmptyHistogramHasNoQuantiles(t *testing.T) {
	var h Histogram
	r := h.Report()
	require.Zero(t, r)
	require.Zero(t, r.Mean())
	require.Zero(t, r.Quantile(0.5))
}

// A clock that steps back, as the wall clock can, records a duration of 0.
func TestNegativeDurationsCountAsZero(t *testing.T) {
	var h Histogram
	h.Record(-time.Second)
	require.Equal(t, report.LatencyHistogram{Count: 1, Buckets: []report.LatencyBucket{{From: 0, To: 1, Count: 1}}}, h.Report())
}

// No goroutine's durations are lost, whatever lanes they use.
func TestConcurrentRecordsAreAllCounted(t *testing.T) {
	var h Histogram
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 1000 {
				h.Record(time.Duration(g*1000 + i))
				if i == 500 {
					_ = h.Report()
				}
			}
		})
	}
	group.Wait()
	r := h.Report()
	require.EqualValues(t, 8000, r.Count)
	require.EqualValues(t, 8000*7999/2, r.Sum)
}

// Synced writes are all measured; of the others one in a sample; failures are not.
func TestWritesAreMeasuredByTheirKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		plain := 0
		for n := range uint64(10 * counters.SampledOneIn) {
			m := Start(false, n)
			if m != 0 {
				plain++
			}
			s.Put.End(m, false, nil)
		}
		require.InDelta(t, 10, plain, 1)
		m := Start(true, 5)
		time.Sleep(time.Second)
		part := Now()
		time.Sleep(3 * time.Second)
		s.Put.End(m, true, nil)
		s.Commit.End(part, true, nil)
		s.Commit.End(part, true, base.ErrClosed)
		s.Fsync.End(m)
		r := s.Report()
		require.EqualValues(t, plain, r.Put.Count)
		require.Zero(t, r.Put.Sum)
		require.Equal(t, 4*time.Second, r.SyncedPut.Sum)
		require.Equal(t, 3*time.Second, r.SyncedCommit.Sum)
		require.EqualValues(t, 1, r.SyncedCommit.Count, "a failed commit is not measured")
		require.Equal(t, 4*time.Second, r.Fsync.Sum)
		require.Zero(t, r.Commit)
	})
}
