package filter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// schemeRate is the mean rate of filters of LevelDB's layout with ideal hashes, and its standard error: that of the
// sample, and that of the filters, whose share of ones varies. With many filters it is that of their rates.
func schemeRate(rng *rand.Rand, keys, bits uint64, k, filters, asked int) (rate, off float64) {
	wrong, squares := 0, 0.0
	for range filters {
		before := wrong
		filter := make([]byte, bits/8+1)
		filter[bits/8] = byte(k)
		w := newBloomWriter(filter)
		for range keys {
			w.set(rng.Uint32())
		}
		probe := makeBloomProbe(filter[:bits/8], k)
		for range asked / filters {
			if probe.HashMayMatch(uint64(rng.Uint32())) {
				wrong++
			}
		}
		squares += float64(wrong-before) * float64(wrong-before)
	}
	if n := float64(filters); filters >= 400 {
		mean := float64(wrong) / n
		return mean * n / float64(asked), math.Sqrt(squares-n*mean*mean) / float64(asked)
	}
	rate = float64(wrong) / float64(asked/filters*filters)
	load := float64(k) * float64(keys) / float64(bits)
	zeros := math.Exp(-load)
	ofOnes := zeros * (1 - (1+load)*zeros) / float64(bits)
	ofRate := rate * float64(k) / (1 - zeros)
	return rate, math.Sqrt(rate/float64(asked) + ofRate*ofRate*ofOnes/float64(filters))
}

// Ideal hashes, so that the test measures only the scheme. Without one of the terms in
// bloom_math.go, a case named after it fails.
func TestLevelDBRateMatchesTheScheme(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4120)) // the same samples on every run
	for _, c := range []struct {
		claim       string
		keys        uint64
		bits        uint64
		k, filters  int
		asked       int
		worseThanBy float64 // than the formula for ideal filters, at least
	}{
		{"small filters: positions coincide", 100, 1000, 6, 400, 400_000, 1.08},
		{"a thousand keys at 20 bits: half of the false positives are coincidences", 1000, 20_008, 13, 100, 4_000_000, 1.15},
		{"more if hashes agree modulo 17", 200, 3400, 11, 1000, 4_000_000, 1.7},
		{"bits divisible by 3, tables of default size", 20_000, 180_000, 6, 10, 400_000, 1.08},
		{"by 3 and 5", 20_000, 240_000, 8, 10, 800_000, 1.08},
		{"by 5, where third positions overlap", 50_000, 500_000, 6, 4, 400_000, 1.65},
		{"by neither", 50_000, 500_008, 6, 4, 400_000, 1.1},
		{"third positions carry no information", 300_000, 1_500_000, 3, 1, 200_000, 1.3},
		{"all positions meet third ones", 300_000, 4_800_000, 11, 1, 3_000_000, 1.7},
		{"two hashes have no third position", 50_000, 200_000, 2, 4, 200_000, 0.99},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, off := schemeRate(rng, c.keys, c.bits, c.k, c.filters, c.asked)
			want := levelDBRate(c.keys, c.bits, c.k)
			ideal := FalsePositiveRate(c.keys, c.bits, c.k)
			t.Logf("%.5f %% ± %.5f, predicted %.5f %%, ideal %.5f %%", 100*got, 100*off, 100*want, 100*ideal)
			require.InDelta(t, want, got, 4*off+0.01*want, "%s", fmt.Sprint(c))
			require.Greater(t, want, c.worseThanBy*ideal)
		})
	}
}

// The model ignores this case, but it must not fail: see levelDBRate.
func TestLevelDBRateAtMultiplesOf65537(t *testing.T) {
	require.InEpsilon(t, levelDBRate(100_000, 65_537*16-8, 6), levelDBRate(100_000, 65_537*16, 6), 1e-9)
}

// From one key on, and for all numbers of bits if the test is long: those that LevelDB's blocks have, and those
// with many common divisors with 2^32 and 2^32 - 1.
func TestRatesOfSmallFiltersMatchTheScheme(t *testing.T) {
	rng := rand.New(rand.NewPCG(64, 64))
	keys := []uint64{1, 2, 3, 5, 6, 7, 10, 12, 24, 51, 70, 102, 153, 204, 409}
	if *filtertest.Long {
		for n := uint64(4); n < 820; n += 4 {
			keys = append(keys, n)
		}
	}
	asked := 500_000
	if testing.Short() {
		asked = 150_000
	}
	for _, bitsPerKey := range []int{5, 10, 20} {
		for _, n := range keys {
			bytes, k := bloomShape(n, bitsPerKey)
			filters := max(40_000/int(n), 1000)
			got, off := schemeRate(rng, n, bytes*8, k, filters, asked/filters*filters)
			want := PredictedRate(n, bitsPerKey)
			margin := 0.02 // of the rate
			if want < 0.002 {
				margin = 0.06
			}
			require.InDelta(t, want, got, 4*off+margin*want, "%d keys, %d bits per key: %d bits", n, bitsPerKey, bytes*8)
		}
	}
}

// A damaged table may have filters of any size, with any number of ones.
func TestAnyShapeHasAPrediction(t *testing.T) {
	for _, bits := range []uint64{8, 64, 1024, 16384} {
		for _, keys := range []uint64{1, bits / 4, bits / 2, bits, math.MaxUint64} {
			rate := Shape{Bits: bits, Hashes: maxBloomHashes}.PredictedRate(keys)
			require.True(t, rate >= 0 && rate <= 1, "%d bits, %d keys: %v", bits, keys, rate)
		}
	}
}

// A table of LevelDB has a filter for each block, with about as many keys and bits as the others; a store has
// millions of them.
func TestPredictionsOfSimilarSmallFiltersAreKept(t *testing.T) {
	smallRates.rates = nil
	predict := func(require func(rate float64)) {
		for bits := uint64(1096); bits < 1176; bits += 8 {
			for keys := uint64(100); keys < 120; keys++ {
				require(levelDBRate(keys, bits, 6))
			}
		}
	}
	predict(func(rate float64) { require.Positive(t, rate) })
	require.Len(t, smallRates.rates, 10*4, "of 200 predictions: for 96, 104, 112 and 120 keys")
	for at := range smallRates.rates {
		smallRates.rates[at] = 0.25
	}
	predict(func(rate float64) { require.InDelta(t, 0.25, rate, 1e-6, "it was computed again") })
	smallRates.rates = nil
}
