package standalone

import (
	"math"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/stretchr/testify/require"
)

// The filters have as many slots per key as an ideal filter has bits for the rate; they use four
// times that in memory, because counters have four bits.
func TestMeasuredRatesOfCountingFiltersMatchThePrediction(t *testing.T) {
	filtertest.EachCell("counting", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
		rate := math.Pow(0.6185, float64(bits))
		f := result.Of(NewCounting(uint64(s.Keys), rate))(t)
		for i := range uint64(s.Keys) {
			f.Add(key(2 * i))
		}
		ofOne := filtertest.BloomVariance(f.keys, f.slots, f.k)
		c.OfFilters = ofOne / float64(s.Filters)
		require.InEpsilon(t, rate, f.PredictedRate(), 0.02+filtertest.Sigmas*math.Sqrt(ofOne))
		c.Ask(s, f.PredictedRate(), key, f.MayContain)
	}).Require(t)
}

// Made for a quarter of the keys, so that the filters grow.
func TestMeasuredRatesOfScalableFiltersMatchThePrediction(t *testing.T) {
	filtertest.EachCell("scalable", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
		rate := math.Pow(0.6185, float64(bits))
		f := result.Of(NewScalable(uint64(s.Keys)/4, rate))(t)
		for i := range uint64(s.Keys) {
			f.Add(key(2 * i))
		}
		require.Greater(t, len(f.stages), 1)
		require.LessOrEqual(t, f.PredictedRate(), rate)
		require.Greater(t, f.PredictedRate(), rate/4, "no bits are wasted")
		c.Ask(s, f.PredictedRate(), key, f.MayContain)
	}).Require(t)
}

// deniers are the kinds of standalone filters.
var deniers = []filtertest.Denier{
	{Kind: "counting", Make: func(keys [][]byte, bits int) func([]byte) bool {
		f, _ := NewCounting(uint64(len(keys)), math.Pow(0.6185, float64(bits)))
		for _, k := range keys {
			f.Add(k)
		}
		return f.MayContain
	}},
	{Kind: "scalable", Make: func(keys [][]byte, bits int) func([]byte) bool {
		f, _ := NewScalable(uint64(len(keys))/3, math.Pow(0.6185, float64(bits)))
		for _, k := range keys {
			f.Add(k)
		}
		return f.MayContain
	}},
}

func TestNoStandaloneFilterDeniesItsKeys(t *testing.T) {
	filtertest.RequireNoneDenied(t, deniers)
}

// The rates are exact: all numbers of slots that the keys may set, with their probabilities.
func TestFiltersOfFewKeysKeepTheirRate(t *testing.T) {
	for _, rate := range []float64{0.3, 0.01, 1e-4, 1e-6, 1e-12} {
		for _, keys := range []int{1, 2, 3, 5, 10, 50} {
			slots, k, err := slotsForRate(uint64(keys), rate, 2)
			require.NoError(t, err)
			of := make([]float64, keys*k+2) // the probability that so many slots are set
			of[0] = 1
			for range keys * k {
				for set := len(of) - 2; set >= 0; set-- {
					part := float64(set) / float64(slots)
					of[set+1] += of[set] * (1 - part)
					of[set] *= part
				}
			}
			exact := 0.0
			for set, p := range of {
				exact += p * math.Pow(float64(set)/float64(slots), float64(k))
			}
			require.LessOrEqual(t, exact, rate, "%d keys", keys)
			if keys > 5 {
				require.Greater(t, exact, 0.9*rate, "%d keys: no slots are wasted", keys)
			}
		}
	}
}

func TestScalableFiltersOfFewKeysKeepTheirRate(t *testing.T) {
	rng := filtertest.StatisticsRand(t)
	for _, c := range []struct {
		planned uint64
		keys    int
	}{{1, 1}, {1, 3}, {2, 20}, {10, 10}} {
		const filters, rate = 2000, 0.01
		var sum, measured float64
		for range filters {
			f := result.Of(NewScalable(c.planned, rate))(t)
			for range c.keys {
				f.Add(le64(rng.Uint64() &^ 1))
			}
			sum += f.PredictedRate()
			for range 100 {
				if f.MayContain(le64(rng.Uint64() | 1)) {
					measured++
				}
			}
		}
		t.Logf("%d of %d keys: %.5f predicted, %.5f measured", c.keys, c.planned, sum/filters, measured/filters/100)
		require.LessOrEqual(t, sum/filters, 1.02*rate)
		require.LessOrEqual(t, measured/filters/100, 1.1*rate)
	}
}
