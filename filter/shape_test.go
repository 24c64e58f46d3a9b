package filter

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func numbered(from, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%d-key", uint64(from+i)*2654435761)
	}
	return keys
}

func TestShapeEstimatesKeysAndRate(t *testing.T) {
	cases := []struct {
		name   string
		policy Policy
		want   func(keys uint64) float64
	}{
		{"LevelDB's, 10 bits", NewBloomPolicy(10), NewBloomPolicy(10).PredictedRate},
		{"LevelDB's, 3 bits", NewBloomPolicy(3), NewBloomPolicy(3).PredictedRate},
		{"cache lines, 10 bits", NewCacheLineBloomPolicy(10), NewCacheLineBloomPolicy(10).PredictedRate},
		{"cache lines, 20 bits", NewCacheLineBloomPolicy(20), NewCacheLineBloomPolicy(20).PredictedRate},
		{"both; the first counts", NewDualBloomPolicy(7), NewCacheLineBloomPolicy(7).PredictedRate},
		{"binary fuse", FusePolicy{}, FusePolicy{}.PredictedRate},
		{"binary fuse, 5 bits", NewFusePolicy(5), NewFusePolicy(5).PredictedRate},
		{"the old name", LegacyBloom, NewBloomPolicy(10).PredictedRate},
	}
	for _, c := range cases {
		for _, n := range []int{300, 20000} {
			t.Run(fmt.Sprintf("%s, %d keys", c.name, n), func(t *testing.T) {
				s, ok := ShapeOf(c.policy, c.policy.CreateFilter(nil, numbered(0, n)))
				require.True(t, ok)
				require.InEpsilon(t, c.want(uint64(n)), s.PredictedRate(uint64(n)), 1e-9)
				require.InEpsilon(t, n, s.EstimatedKeys(), 0.15, "keys")
				require.InDelta(t, 0.5, s.Fill(), 0.2)
			})
		}
	}
}

func TestShapeOfAcceptsOnlyKnownFilters(t *testing.T) {
	cases := []struct {
		name   string
		policy Policy
		filter []byte
	}{
		{"no policy", None, []byte{1, 2, 3}},
		{"nil", nil, []byte{1, 2, 3}},
		{"an empty filter", NewBloomPolicy(10), nil},
		{"a reserved k", NewBloomPolicy(10), []byte{1, 2, 3, 31}},
		{"part of a line", NewCacheLineBloomPolicy(10), make([]byte, 63)},
		{"fuse without a solution", FusePolicy{}, []byte{0, 0, 1}},
		{"packed fuse without a solution", FusePolicy{}, []byte{0, 0, 7, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, ok := ShapeOf(c.policy, c.filter)
			require.False(t, ok)
		})
	}
}

func TestFullFilterMatchesEverything(t *testing.T) {
	s, ok := ShapeOf(NewBloomPolicy(10), []byte{255, 255, 255, 255, 255, 255, 255, 255, 6})
	require.True(t, ok)
	require.Equal(t, uint64(math.MaxUint64), s.EstimatedKeys())
	require.Equal(t, 1.0, s.PredictedRate(s.EstimatedKeys()))
	require.Equal(t, 1.0, s.Fill())
	require.Zero(t, s.PredictedRate(0))
}

func FuzzShapeOf(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 6})
	f.Add(NewCacheLineBloomPolicy(10).CreateFilter(nil, numbered(0, 20)))
	f.Add(FusePolicy{}.CreateFilter(nil, numbered(0, 20)))
	f.Add(NewFusePolicy(5).CreateFilter(nil, numbered(0, 20)))
	f.Fuzz(func(t *testing.T, filter []byte) {
		for _, p := range []Policy{NewBloomPolicy(10), NewCacheLineBloomPolicy(10), FusePolicy{}, LegacyBloom} {
			s, ok := ShapeOf(p, filter)
			if !ok {
				continue
			}
			require.LessOrEqual(t, s.Bits, uint64(len(filter))*8)
			require.LessOrEqual(t, s.Set, s.Bits)
			rate := s.PredictedRate(s.EstimatedKeys())
			require.True(t, rate >= 0 && rate <= 1, rate)
		}
	})
}

// Computed from the formula, independently of the code.
func TestWilsonsInterval(t *testing.T) {
	cases := []struct {
		passed, asked uint64
		low, high     float64
	}{
		{0, 0, 0, 1},
		{4, 20, 0.0807, 0.4160},
		{0, 10, 0, 0.2775},
		{10, 10, 0.7225, 1},
		{100, 10000, 0.0082, 0.0121},
		{11, 10, 0.7225, 1},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d of %d", c.passed, c.asked), func(t *testing.T) {
			low, high := RateInterval(c.passed, c.asked)
			require.InDelta(t, c.low, low, 1e-4)
			require.InDelta(t, c.high, high, 1e-4)
		})
	}
}

// Of all samples with a given rate, 95 in 100 have the rate within their intervals. The test
// sums the binomial distribution; it draws no samples.
func TestWilsonIntervalCoversTheRate(t *testing.T) {
	for _, rate := range []float64{0.002, 0.01, 0.1, 0.5} {
		const n = 4000
		logs := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
		var held float64
		for k := range n + 1 {
			low, high := RateInterval(uint64(k), n)
			if low <= rate && rate <= high {
				held += math.Exp(logs(n) - logs(float64(k)) - logs(float64(n-k)) + float64(k)*math.Log(rate) + float64(n-k)*math.Log1p(-rate))
			}
		}
		require.InDelta(t, 0.95, held, 0.015, "rate %g", rate)
	}
}
