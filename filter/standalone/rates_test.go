package standalone

import (
	"math"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/stretchr/testify/require"
)

// The filters have as many slots per key as an ideal filter has bits for the rate; they use four
// times that in memory, because counters have four bits.
func TestMeasuredRatesOfCountingFiltersMatchThePrediction(t *testing.T) {
	filtertest.EachCell("counting", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
		f, err := NewCounting(uint64(s.Keys), math.Pow(0.6185, float64(bits)))
		require.NoError(t, err)
		for i := range uint64(s.Keys) {
			f.Add(key(2 * i))
		}
		c.OfFilters = filtertest.BloomVariance(f.keys, f.slots, f.k) / float64(s.Filters)
		c.Ask(s, f.PredictedRate(), key, f.MayContain)
	}).Require(t)
}

// Made for a quarter of the keys, so that the filters grow.
func TestMeasuredRatesOfScalableFiltersMatchThePrediction(t *testing.T) {
	filtertest.EachCell("scalable", func(c *filtertest.Cell, s filtertest.RateSize, bits int, key func(uint64) []byte) {
		rate := math.Pow(0.6185, float64(bits))
		f, err := NewScalable(uint64(s.Keys)/4, rate)
		require.NoError(t, err)
		for i := range uint64(s.Keys) {
			f.Add(key(2 * i))
		}
		require.Greater(t, len(f.stages), 1)
		require.LessOrEqual(t, f.PredictedRate(), rate)
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
