package report

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each verdict but the good ones has advice of its own.
func TestVerdictsHaveAdvice(t *testing.T) {
	seen := map[string]FilterVerdict{}
	for _, v := range []FilterVerdict{
		VerdictDamaged, VerdictDenies, VerdictUnknown, VerdictNoFilter, VerdictSaturated, VerdictCollisions, VerdictHighRate, VerdictNeverQueried,
		VerdictOff, VerdictRangeUnknown, VerdictRangeMatchesEmpty, VerdictRangeNeverQueried, VerdictRangeNotQueried, VerdictUnopened,
	} {
		advice := v.Advice()
		require.NotEqual(t, "nothing", advice, v)
		require.NotContains(t, seen, advice, "%s and %s", v, seen[advice])
		seen[advice] = v
	}
	require.Equal(t, "nothing", VerdictGood.Advice())
}

func TestRatesOfProbes(t *testing.T) {
	rate, low, high := FilterProbes{}.Rate()
	require.Zero(t, rate)
	require.True(t, low == 0 && high == 1, "nothing is known")
	p := FilterProbes{Absent: 1000, Passed: 10, Stored: 5}
	rate, low, high = p.Rate()
	require.Equal(t, 0.01, rate)
	require.True(t, 0 < low && low < rate && rate < high && high < 0.02)
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var decoded map[string]float64
	require.NoError(t, json.Unmarshal(text, &decoded))
	require.Equal(t, map[string]float64{"absent": 1000, "passed": 10, "stored": 5, "denied": 0, "rate": rate, "low": low, "high": high}, decoded)
	require.EqualValues(t, 6, FilterLookups{Negatives: 1, TruePositives: 2, FalsePositives: 3}.Asked())
}

func TestWhenAFilterHasRepaidItsMemory(t *testing.T) {
	r := TableFilterReport{BlockBytes: 4000, FilterFigures: FilterFigures{FilterBytes: 1980, Predicted: 0.01}}
	require.InDelta(t, 0.5, r.LookupsToRepay(), 1e-9, "without probes the predicted rate counts")
	r.Probes = FilterProbes{Absent: 100, Passed: 50}
	require.InDelta(t, 0.99, r.LookupsToRepay(), 1e-9)
	r.Probes.Passed = 100
	require.True(t, math.IsInf(r.LookupsToRepay(), 1))
}

func TestMeansAndQuantilesOfLatencies(t *testing.T) {
	var l LatencyMetrics
	require.Zero(t, l.Get.Mean())
	require.Zero(t, l.Get.Quantile(0.5))
	l.Get = LatencyHistogram{Count: 4, Sum: 100, Buckets: []LatencyBucket{{From: 10, To: 11, Count: 3}, {From: 70, To: 74, Count: 1}}}
	require.Equal(t, 25*time.Nanosecond, l.Get.Mean())
	for q, want := range map[float64]time.Duration{math.NaN(): 10, -1: 10, 0.5: 10, 0.75: 10, 0.76: 73, 1: 73, 2: 73} {
		require.Equal(t, want, l.Get.Quantile(q), "%v", q)
	}
	var names []string
	for _, n := range l.Named() {
		names = append(names, n.Name)
	}
	require.Equal(t, []string{"get", "put", "synced put", "commit", "synced commit", "fsync"}, names)
	require.Same(t, &l.Get, l.Named()[0].LatencyHistogram)
}
