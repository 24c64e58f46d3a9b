package filter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBloomHashesAgreeWithLevelDBsFloatingPoint(t *testing.T) {
	for bits := -3; bits <= 300; bits++ {
		factor := 0.69 // a variable, so that the product is rounded as in C++
		want := min(max(int(float64(bits)*factor), 1), 30)
		require.Equal(t, want, BloomHashes(bits), "%d bits per key", bits)
	}
	require.Equal(t, 30, BloomHashes(math.MaxInt))
	require.Equal(t, 1, BloomHashes(math.MinInt))
}

func TestFalsePositiveRateReproducesThePublishedTable(t *testing.T) {
	figures := 0
	for bitsPerKey, rates := range publishedRates(t) {
		for k := 1; k < len(rates); k++ {
			if bitsPerKey == 1 && k == 1 {
				continue // the table has 1.0 for lack of a value; the formula gives 0.632
			}
			// Three digits are published, some truncated and some rounded.
			const keys = 1000
			got := FalsePositiveRate(keys, keys*uint64(bitsPerKey), k)
			require.InEpsilon(t, rates[k], got, 0.006, "%d bits per key, %d hashes", bitsPerKey, k)
			figures++
		}
	}
	require.Greater(t, figures, 150, "the whole table is read")
}

func TestFalsePositiveRateAtItsEdges(t *testing.T) {
	require.Zero(t, FalsePositiveRate(0, 0, 0), "no keys, no false positives")
	require.Zero(t, FalsePositiveRate(0, 64, 6))
	require.Equal(t, 1.0, FalsePositiveRate(1, 0, 6), "no bits, no information")
	require.Equal(t, 1.0, FalsePositiveRate(1, 64, 0))
	require.Equal(t, 1.0, FalsePositiveRate(1, 64, -1))
	require.Equal(t, 1.0, FalsePositiveRate(math.MaxUint64, 64, 6), "saturated")
	require.InEpsilon(t, 1e-12, FalsePositiveRate(1, 1_000_000_000_000, 1), 1e-6, "small rates keep their precision")
}

func TestPredictedRate(t *testing.T) {
	for _, c := range []struct {
		name string
		keys uint64
		bits int
		want float64 // to three digits
	}{
		{"no keys", 0, 10, 0},
		{"10 bits, six hashes, 0.84 % for an ideal filter", 20_000, 10, 0.00904},
		{"36 keys, one of LevelDB's blocks", 36, 10, 0.0115},
		{"a single key, whose rate an ideal filter would have in a millionth", 1, 10, 0.00203},
		{"six keys, the most in the smallest filter", 6, 10, 0.0218},
		{"all third positions are set", 1_000_000, 10, 0.0130},
		{"at 100 million keys, equal hashes dominate", 100_000_000, 10, 0.0313},
		{"at 20 bits, equal hashes are nearly all", 100_000_000, 20, 0.0231},
		{"bits below one count as one", 1000, 0, 0.632},
		{"bits above the maximum count as the maximum", 1000, 1 << 30, PredictedRate(1000, MaxBitsPerKey)},
		{"from 2^32 bits on, the bits per key fall", 1 << 30, 10, 0.259},
		{"finally everything matches", 1 << 62, 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := PredictedRate(c.keys, c.bits)
			if c.want == 0 {
				require.Zero(t, got)
				return
			}
			require.InEpsilon(t, c.want, got, 0.006)
		})
	}
}

func TestTheRatesInThePackageComment(t *testing.T) {
	for _, c := range []struct {
		bits, k               int
		table, million, ideal float64 // percent
	}{
		{4, 2, 15.5, 15.5, 15.5}, {6, 4, 6.31, 8.49, 5.61}, {8, 5, 2.32, 3.18, 2.17}, {10, 6, 0.904, 1.31, 0.844},
		{12, 8, 0.350, 0.496, 0.314}, {16, 11, 0.0498, 0.0967, 0.0459}, {20, 13, 0.0079, 0.0390, 0.0068},
	} {
		require.Equal(t, c.k, BloomHashes(c.bits))
		require.InEpsilon(t, c.table, 100*PredictedRate(20_000, c.bits), 0.006, "%d bits", c.bits)
		require.InEpsilon(t, c.million, 100*PredictedRate(1_000_000, c.bits), 0.005, "%d bits", c.bits)
		require.InEpsilon(t, c.ideal, 100*FalsePositiveRate(20_000, 20_000*uint64(c.bits), c.k), 0.005, "%d bits", c.bits)
	}
}
