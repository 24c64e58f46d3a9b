package filter

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rates, in percent, were simulated with ideal hashes and four million queries of a
// filter of a million keys; k is the one with the lowest rate.
func TestCacheLineFalsePositiveRateAgreesWithASimulation(t *testing.T) {
	const keys = 1_000_000
	for _, c := range []struct {
		bits, k int
		percent float64
	}{
		{4, 3, 14.84}, {5, 3, 9.337}, {6, 4, 5.786}, {7, 5, 3.655}, {8, 5, 2.330}, {9, 6, 1.484},
		{10, 6, 0.967}, {11, 7, 0.625}, {12, 7, 0.414}, {13, 8, 0.273}, {14, 8, 0.185}, {15, 9, 0.125},
		{16, 10, 0.084}, {17, 10, 0.058}, {18, 10, 0.041}, {19, 10, 0.029}, {20, 12, 0.020},
	} {
		lines := uint64((keys*c.bits + 511) / 512)
		// Two or three published digits, and the error of a sample of four million.
		sample := 3 / math.Sqrt(4e6*c.percent/100)
		require.InEpsilon(t, c.percent, 100*CacheLineFalsePositiveRate(keys, lines, c.k), 0.006+sample+0.0005/c.percent, "%d bits", c.bits)
	}
}

func TestCacheLineHashesMatchTheFormula(t *testing.T) {
	for b := 1; b <= 44; b++ {
		rate := func(k int) float64 {
			return CacheLineFalsePositiveRate(1_000_000, uint64((1_000_000*b+511)/512), k)
		}
		best := 1.0
		for k := 1; k <= 24; k++ {
			best = min(best, rate(k))
		}
		want := 1
		for rate(want) > 1.03*best {
			want++
		}
		require.Equal(t, want, CacheLineHashes(b), "%d bits per key", b)
	}
	require.Equal(t, 1, CacheLineHashes(math.MinInt))
	require.Equal(t, 16, CacheLineHashes(math.MaxInt))
}

func TestCacheLineFalsePositiveRateAtItsEdges(t *testing.T) {
	require.Zero(t, CacheLineFalsePositiveRate(0, 0, 0), "no keys, no errors")
	require.Equal(t, 1.0, CacheLineFalsePositiveRate(1, 0, 6))
	require.Equal(t, 1.0, CacheLineFalsePositiveRate(1, 1, 0))
	require.Equal(t, 1.0, CacheLineFalsePositiveRate(1, 1, -1))
	require.Equal(t, 1.0, CacheLineFalsePositiveRate(math.MaxUint64, 1, 6), "saturated")
	require.Equal(t, 1.0, CacheLineFalsePositiveRate(math.MaxUint64, 1<<20, 6), "saturated")
	require.InEpsilon(t, 1.0/512, CacheLineFalsePositiveRate(1, 1, 1), 1e-9, "one key, one bit")
	require.InEpsilon(t, 1.0/512/1000, CacheLineFalsePositiveRate(1, 1000, 1), 1e-9, "in one of a thousand lines")
	require.InEpsilon(t, 1.0/512/1000, CacheLineFalsePositiveRate(1_000_000, 1_000_000_000, 1), 1e-2)
	for n := uint64(1); n < 1<<62; n *= 7 { // terminates, and stays within 0 to 1
		for _, lines := range []uint64{1, 2, 3, 1000, n/51 + 1} {
			rate := CacheLineFalsePositiveRate(n, lines, 6)
			require.True(t, rate >= 0 && rate <= 1, "%d keys, %d lines: %v", n, lines, rate)
		}
	}
}

func TestPredictedRateFollowsTheLayout(t *testing.T) {
	require.Equal(t, PredictedRate(20_000, 12), NewBloomPolicy(12).PredictedRate(20_000))
	for _, c := range []struct {
		keys uint64
		bits int
		want float64
	}{
		{0, 10, 0},
		{1, 10, 2.6e-12}, // all six of its bits, in one line
		{20_000, 10, 0.00966},
		{100_000_000, 10, 0.00966}, // LevelDB's layout: 3.12 %
		{1 << 32, 10, 0.1554},      // the most lines: slightly less than 4 bits per key
	} {
		got := NewCacheLineBloomPolicy(c.bits).PredictedRate(c.keys)
		require.InDelta(t, c.want, got, 0.01*c.want+1e-12, "%d keys", c.keys)
		require.Equal(t, got, NewDualBloomPolicy(c.bits).PredictedRate(c.keys))
	}
}

func TestTheCacheLineRatesInThePackageComment(t *testing.T) {
	for _, c := range []struct {
		bits, k int
		percent float64
	}{
		{4, 3, 14.8}, {6, 4, 5.77}, {8, 5, 2.33}, {10, 6, 0.966}, {12, 7, 0.414}, {16, 9, 0.0844}, {20, 10, 0.0203},
	} {
		require.Equal(t, c.k, CacheLineHashes(c.bits))
		require.Equal(t, fmt.Sprintf("%.3g", c.percent), fmt.Sprintf("%.3g", 100*NewCacheLineBloomPolicy(c.bits).PredictedRate(1_000_000)), "%d bits", c.bits)
	}
}

func TestFilterBytesIsTheFilterSize(t *testing.T) {
	for _, n := range []int{1, 2, 6, 7, 51, 52, 1000, 12345} {
		keys := le32Keys(0, n)
		for _, bits := range []int{1, 7, 10, 20, 100} {
			for _, p := range []BloomPolicy{NewBloomPolicy(bits), NewCacheLineBloomPolicy(bits), NewDualBloomPolicy(bits)} {
				require.Len(t, p.CreateFilter(nil, keys), int(p.FilterBytes(uint64(n))), "%s, %d keys, %d bits", p.Name(), n, bits)
			}
		}
	}
}
