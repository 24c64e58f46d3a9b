package filter

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// publishedRates reads the published table: rates[b][k], 0 if the table has no value.
func publishedRates(t *testing.T) (rates [21][]float64) {
	data := result.Of(os.ReadFile("testdata/bloom_rates.tsv"))(t)
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		b, err := strconv.Atoi(cells[0])
		if err != nil {
			continue // the comments and the heading
		}
		for _, cell := range cells[1:] {
			if cell == "" {
				break
			}
			rate := result.Of(strconv.ParseFloat(cell, 64))(t)
			rates[b] = append(rates[b], rate)
		}
	}
	require.Len(t, rates[20], 15, "the whole table is read")
	return rates
}

// Cassandra uses the k with the lowest rate in the table's row, the first if several do.
func TestBestHashesMatchThePublishedTable(t *testing.T) {
	rates := publishedRates(t)
	for b := 1; b <= 20; b++ {
		want := 1
		for k := 2; k < len(rates[b]); k++ {
			if rates[b][k] < rates[b][want] {
				want = k
			}
		}
		require.Equal(t, want, BestHashes(b), "%d bits per key", b)
	}
}

func TestBestHashesAreLn2TimesTheBits(t *testing.T) {
	for b := -3; b <= 120; b++ {
		k := BestHashes(b)
		exact := math.Ln2 * float64(min(max(b, 1), MaxBitsPerKey))
		require.InDelta(t, min(max(exact, 1), maxBloomHashes), float64(k), 0.6, "%d bits per key", b)
	}
}

// cassandraSpec is the choice of Cassandra's BloomCalculations from its table: the fewest
// bits whose best k is good enough, and then the fewest hashes.
func cassandraSpec(rates [21][]float64, maxRate float64) BloomSpec {
	for b := 2; b <= 20; b++ {
		k := BestHashes(b)
		if rates[b][k] <= maxRate {
			for k > 1 && rates[b][k-1] <= maxRate {
				k--
			}
			return BloomSpec{b, k}
		}
	}
	return BloomSpec{}
}

func TestSpecForRateChoosesAsCassandraDoes(t *testing.T) {
	rates := publishedRates(t)
	for e := 0.392; e > 6.8e-5; e *= 0.987 {
		got := result.Of(SpecForRate(e, 20))(t)
		if want := cassandraSpec(rates, e); got != want {
			// The table has three digits: near one of its values either choice may be right.
			off := min(math.Abs(rates[want.BitsPerKey][want.Hashes]/e-1), math.Abs(rates[got.BitsPerKey][got.Hashes]/e-1))
			require.Less(t, off, 0.006, "rate %v: %+v, Cassandra %+v", e, got, want)
		}
	}
}

func TestSpecForRate(t *testing.T) {
	for _, c := range []struct {
		claim   string
		rate    float64
		maxBits int
		want    BloomSpec
	}{
		{"any rate is allowed", 1, 1, BloomSpec{1, 1}},
		{"one bit is enough for 64 %", 0.64, 20, BloomSpec{1, 1}},
		{"two for 40 %", 0.40, 20, BloomSpec{2, 1}}, // Cassandra swaps its two numbers here: its rate is 75 %
		{"1 %", 0.01, 20, BloomSpec{10, 5}},
		{"0.1 %", 0.001, 20, BloomSpec{15, 8}},
		{"exactly the rate of the most bits", BloomSpec{20, 14}.Rate(), 20, BloomSpec{20, 14}},
		{"beyond the table", 1e-6, 100, BloomSpec{29, 17}},
		{"more bits than the maximum count as the maximum", 1e-6, math.MaxInt, BloomSpec{29, 17}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := result.Of(SpecForRate(c.rate, c.maxBits))(t)
			require.Equal(t, c.want, got)
			require.LessOrEqual(t, got.Rate(), c.rate)
		})
	}
	for _, c := range []struct {
		claim   string
		rate    float64
		maxBits int
		says    string
	}{
		{"a rate below that of the most bits", 6.6e-5, 20, "the lowest is 6.71e-05, at 20 bits per key"},
		{"a rate of 0", 0, math.MaxInt, "cannot reach a false-positive rate of 0;"},
		{"a negative rate", -1, 20, "cannot reach"},
		{"not a number", math.NaN(), 20, "cannot reach a false-positive rate of NaN"},
		{"no bits", 0.5, 0, "at least 1"},
		{"a negative number of bits", 0.5, math.MinInt, "at least 1"},
	} {
		t.Run(c.claim+" is an error", func(t *testing.T) {
			require.ErrorContains(t, result.Err(SpecForRate(c.rate, c.maxBits)), c.says)
		})
	}
}

func TestForRateFindsTheFewestBits(t *testing.T) {
	for _, layout := range []BloomPolicy{NewBloomPolicy(10), NewCacheLineBloomPolicy(1), NewDualBloomPolicy(100)} {
		for _, keys := range []uint64{1, 36, 18_000, 1_000_000, 100_000_000} {
			for _, rate := range []float64{0.5, 0.1, 0.0251, 0.01} {
				p, err := layout.ForRate(keys, rate)
				if layout.layout == levelDBLayout && keys == 100_000_000 && rate == 0.01 {
					require.ErrorContains(t, err, "leveldb.BuiltinBloomFilter2 with 100000000 keys")
					continue // 2.3 % of absent keys have a stored key's hash
				}
				require.NoError(t, err)
				require.Equal(t, layout.layout, p.layout)
				require.LessOrEqual(t, p.PredictedRate(keys), rate)
				if b := p.BitsPerKey(); b > 1 {
					require.Greater(t, newBloomPolicy(p.layout, b-1).PredictedRate(keys), rate, "%d keys, one bit less", keys)
				}
			}
		}
	}
	for _, never := range []float64{0, -1, math.NaN()} {
		_, err := NewCacheLineBloomPolicy(10).ForRate(1000, never)
		require.ErrorContains(t, err, "sievedb.CacheLineBloom with 1000 keys cannot reach")
	}
}

func TestMaxBitsFor(t *testing.T) {
	for _, c := range []struct {
		keys         uint64
		bloom, lines int
	}{
		{0, 100, 100}, {1, 100, 100}, {1_000_000, 100, 100},
		{42_949_672, 100, 100}, {42_949_673, 99, 100},
		{429_496_728, 10, 39}, {1 << 32, 0, 3}, {1<<32 - 8, 1, 3}, {1 << 35, 0, 0}, {math.MaxUint64, 0, 0},
	} {
		t.Run(fmt.Sprintf("keys=%d", c.keys), func(t *testing.T) {
			require.Equal(t, c.bloom, NewBloomPolicy(10).MaxBitsFor(c.keys))
			require.Equal(t, c.lines, NewCacheLineBloomPolicy(10).MaxBitsFor(c.keys))
			require.Equal(t, c.lines, NewDualBloomPolicy(10).MaxBitsFor(c.keys))
		})
	}
}

func TestSameHashRateIsALowerBound(t *testing.T) {
	require.InEpsilon(t, 1_000_000/math.Exp2(32), SameHashRate(1_000_000, 32), 2e-4)
	require.InEpsilon(t, 0.02301, SameHashRate(100_000_000, 32), 1e-3)
	require.InEpsilon(t, 1e8/math.Exp2(64), SameHashRate(100_000_000, 64), 1e-9)
	require.Zero(t, SameHashRate(0, 32))
	require.Equal(t, 1.0, SameHashRate(math.MaxUint64, 32))
	require.InDelta(t, SameHashRate(10_000_000, 32), NewBloomPolicy(100).PredictedRate(10_000_000), 5e-6)
}
