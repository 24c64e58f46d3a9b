package filter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sievedb/sievedb/internal/test/filtertest"
	"github.com/stretchr/testify/require"
)

// treeOf returns levels whose sizes grow by ratio, the largest last, with keys keys in total.
func treeOf(levels int, ratio, keys float64) []LevelLoad {
	tree := make([]LevelLoad, levels)
	var total float64
	for i := range tree {
		tree[i] = LevelLoad{Keys: math.Pow(ratio, float64(i)), Weight: 1}
		total += tree[i].Keys
	}
	for i := range tree {
		tree[i].Keys *= keys / total
	}
	return tree
}

func keysOf(levels []LevelLoad) (n float64) {
	for _, l := range levels {
		n += l.Keys
	}
	return n
}

func spent(levels []LevelLoad, bits []float64) (sum float64) {
	for i, l := range levels {
		sum += l.Keys * bits[i]
	}
	return sum
}

// idealCurve is the curve of ideal bloom filters.
func idealCurve(most int) (c Curve) {
	for b := range most + 1 {
		c = append(c, math.Exp(-math.Ln2*math.Ln2*float64(b)))
	}
	return c
}

// monkey is the formula for ideal filters with any real number of bits: rates in proportion
// to keys ÷ weight. Levels for which that exceeds 1 get nothing.
func monkey(levels []LevelLoad, bits float64) []float64 {
	has := make([]bool, len(levels))
	for i := range has {
		has[i] = true
	}
	for {
		sum, keys := bits*math.Ln2*math.Ln2, 0.0
		for i, l := range levels {
			if has[i] {
				sum += l.Keys * math.Log(l.Keys/l.Weight)
				keys += l.Keys
			}
		}
		lambda, again := math.Exp(-sum/keys), false
		out := make([]float64, len(levels))
		for i, l := range levels {
			if rate := lambda * l.Keys / l.Weight; has[i] && rate > 1 {
				has[i], again = false, true
			} else if has[i] {
				out[i] = -math.Log(rate) / (math.Ln2 * math.Ln2)
			}
		}
		if !again {
			return out
		}
	}
}

func uniform(levels []LevelLoad, bits float64) []float64 {
	out := make([]float64, len(levels))
	for i := range out {
		out[i] = bits
	}
	return out
}

func randomTree(rnd *rand.Rand) []LevelLoad {
	tree := make([]LevelLoad, 1+rnd.IntN(7))
	for i := range tree {
		tree[i] = LevelLoad{Keys: math.Exp(rnd.Float64() * 15), Weight: 0.1 + 4*rnd.Float64()}
	}
	return tree
}

var curves = map[string]Curve{
	"LevelDB's": NewBloomPolicy(10).Curve(), "cache lines": NewCacheLineBloomPolicy(10).Curve(),
	"both": NewDualBloomPolicy(10).Curve(), "ideal": idealCurve(30),
}

func TestAllocationFollowsTheFormula(t *testing.T) {
	c := idealCurve(60)
	for _, levels := range []int{1, 2, 4, 5, 7} {
		for _, ratio := range []float64{2, 4, 10} {
			for _, bits := range []float64{1, 5, 10, 14} {
				tree := treeOf(levels, ratio, 1e9)
				tree[0].Weight = 4 // level 0 has several runs
				got, want := c.Allocate(tree, bits*1e9), monkey(tree, bits*1e9)
				for i := range tree {
					require.InDelta(t, want[i], got[i], 1, "level %d of %d, ratio %g, %g bits: %.1f for %.1f", i, levels, ratio, bits, got, want)
				}
				require.LessOrEqual(t, c.Wasted(tree, got), 1.04*c.Wasted(tree, want))
			}
		}
	}
}

// The formula's own figures: 10 bits everywhere against an optimal allocation, ratio 10.
func TestAllocationReachesThePublishedGain(t *testing.T) {
	cases := []struct {
		levels          int
		uniform, solved float64 // percent
	}{{3, 2.46, 1.17}, {4, 3.28, 1.17}, {5, 4.10, 1.18}, {6, 4.92, 1.18}, {7, 5.74, 1.18}}
	c := idealCurve(60)
	for _, of := range cases {
		tree := treeOf(of.levels, 10, 1e9)
		require.InDelta(t, of.uniform, 100*c.Wasted(tree, uniform(tree, 10)), 0.01)
		require.InDelta(t, of.solved, 100*c.Wasted(tree, c.Allocate(tree, 1e10)), 0.06)
	}
}

func TestAllocationIsOptimalForWholeBits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := NewCacheLineBloomPolicy(10).Curve()[:9]
	for range 30 {
		tree := randomTree(rnd)[:1]
		for len(tree) < 4 {
			tree = append(tree, LevelLoad{Keys: 1 + 1000*rnd.Float64(), Weight: 0.1 + rnd.Float64()})
		}
		budget := keysOf(tree) * 8 * rnd.Float64()
		got := c.Wasted(tree, c.Allocate(tree, budget))
		for n := range 9 * 9 * 9 * 9 {
			bits := []float64{float64(n % 9), float64(n / 9 % 9), float64(n / 81 % 9), float64(n / 729)}
			if spent(tree, bits) <= budget {
				require.LessOrEqual(t, got, c.Wasted(tree, bits)+1e-9, "%v of %v", bits, tree)
			}
		}
	}
}

func TestAllocationsSpendTheBudgetMonotonically(t *testing.T) {
	rnd := filtertest.StatisticsRand(t) // only for floating-point tolerances
	for name, c := range curves {
		for range 200 {
			tree := randomTree(rnd)
			total := keysOf(tree)
			most := total * float64(len(c)-1)
			budget := 1.2 * most * rnd.Float64()
			bits := c.Allocate(tree, budget)
			require.InEpsilon(t, min(budget, most), spent(tree, bits), 1e-9, name)
			require.LessOrEqual(t, c.Wasted(tree, bits), c.Wasted(tree, uniform(tree, budget/total))+1e-12, name)
			more := c.Allocate(tree, 1.1*budget)
			require.LessOrEqual(t, c.Wasted(tree, more), c.Wasted(tree, bits)+1e-12, name)
			for i := range tree {
				require.GreaterOrEqual(t, more[i], bits[i]-1e-9, "a larger budget takes bits from no level")
			}
			back := c.AllocateFor(tree, c.Wasted(tree, bits))
			require.InDeltaSlice(t, bits, back, 1e-5, "AllocateFor is the inverse")
		}
	}
}

func TestAllocationHalvesWastedReadsFromFourLevels(t *testing.T) {
	for name, c := range curves {
		for levels := 4; levels <= 7; levels++ {
			for _, bits := range []float64{8, 9, 10} {
				tree := treeOf(levels, 10, 1e9)
				solved := c.Wasted(tree, c.Allocate(tree, bits*1e9))
				require.LessOrEqual(t, solved, c.Wasted(tree, uniform(tree, bits))/2, "%s, %d levels, %g bits", name, levels, bits)
			}
		}
	}
}

func TestUnreachedLastLevelGetsNoFilter(t *testing.T) {
	tree := treeOf(4, 10, 1e6)
	tree[3].Weight = 1e-6 // lookups find their keys above
	bits := NewCacheLineBloomPolicy(10).Curve().Allocate(tree, 1e6)
	require.Less(t, bits[3], 0.2)
	require.Greater(t, bits[2], 7.0)
}

func TestAllocationsOfOddTrees(t *testing.T) {
	c := NewBloomPolicy(10).Curve()
	cases := []struct {
		name   string
		curve  Curve
		levels []LevelLoad
		budget float64
		want   []float64
	}{
		{"no levels", c, nil, 100, []float64{}},
		{"no budget", c, []LevelLoad{{10, 1}}, 0, []float64{0}},
		{"a negative budget", c, []LevelLoad{{10, 1}}, -5, []float64{0}},
		{"more than is useful", c, []LevelLoad{{10, 1}, {100, 1}}, 1e9, []float64{16, 16}},
		{"a level without keys", c, []LevelLoad{{0, 1}, {100, 1}}, 500, []float64{16, 5}},
		{"a level that lookups do not reach", c, []LevelLoad{{10, 0}, {100, 1}}, 500, []float64{0, 5}},
		{"no curve", nil, []LevelLoad{{10, 1}}, 100, []float64{0}},
		{"a curve that falls faster later", Curve{1, 0.9, 0.1}, []LevelLoad{{10, 1}}, 10, []float64{1}},
		{"a curve that rises", Curve{1, 2}, []LevelLoad{{10, 1}}, 10, []float64{0}},
	}
	for _, of := range cases {
		t.Run(of.name, func(t *testing.T) {
			require.InDeltaSlice(t, of.want, of.curve.Allocate(of.levels, of.budget), 1e-9)
		})
	}
	require.InDeltaSlice(t, []float64{16}, c.AllocateFor([]LevelLoad{{10, 1}}, 0), 1e-9, "as low as possible")
	require.InDeltaSlice(t, []float64{0}, c.AllocateFor([]LevelLoad{{10, 1}}, 1), 1e-9)
	require.Zero(t, c.AllocateFor([]LevelLoad{{10, 1}}, 5)[0])
	require.InDelta(t, 0.5*c[4]+0.5*c[5], c.Rate(4.5), 1e-12)
	require.Equal(t, 1.0, Curve(nil).Rate(3))
}

func TestCurvesAreConvex(t *testing.T) {
	for name, c := range curves {
		require.Equal(t, 1.0, c[0])
		for b := 2; b < len(c); b++ {
			require.Less(t, c[b], c[b-1], name)
			require.Less(t, c[b-1]-c[b], c[b-2]-c[b-1], "%s, %d bits", name, b)
		}
	}
}

func TestLevelDBCurveIsTheMeanOverTableSizes(t *testing.T) {
	var sum [17]float64
	sizes := 0
	for keys := uint64(15_013); keys < 50_000; keys = keys*13/12 + 2 | 1 {
		for b := range sum[1:] {
			sum[b+1] += PredictedRate(keys, b+1)
		}
		sizes++
	}
	c := NewBloomPolicy(10).Curve()
	require.Len(t, c, len(sum))
	for b := range sum[1:] {
		require.InEpsilon(t, sum[b+1]/float64(sizes), c[b+1], 1e-3, "%d bits", b+1)
	}
	c[1] = 0
	require.NotZero(t, NewBloomPolicy(10).Curve()[1], "the caller owns the slice")
}

func TestWithBitsPerKey(t *testing.T) {
	cases := []struct {
		name string
		of   Policy
		bits int
		want []Policy
		ok   bool
	}{
		{"LevelDB's", NewBloomPolicy(10), 7, []Policy{NewBloomPolicy(7)}, true},
		{"both", NewDualBloomPolicy(10), 7, []Policy{NewCacheLineBloomPolicy(7), NewBloomPolicy(7)}, true},
		{"several", Several(NewBloomPolicy(10), FusePolicy{}), 3, []Policy{NewBloomPolicy(3), NewFusePolicy(3)}, true},
		{"no bits", NewDualBloomPolicy(10), 0, nil, true},
		{"none", None, 7, nil, false},
		{"binary fuse", FusePolicy{}, 7, []Policy{NewFusePolicy(7)}, true},
		{"binary fuse first", Several(FusePolicy{}, NewBloomPolicy(10)), 7, []Policy{NewFusePolicy(7), NewBloomPolicy(7)}, true},
		{"the old name first", Several(LegacyBloom, NewBloomPolicy(10)), 7, []Policy{LegacyBloom, NewBloomPolicy(10)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, ok := WithBitsPerKey(c.of, c.bits)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, Kinds(p))
		})
	}
}

func ExampleCurve_Allocate() {
	// Four runs of level 0, then levels that each have ten times the keys of the one before.
	levels := []LevelLoad{{Keys: 1e5, Weight: 4}, {Keys: 1e6, Weight: 1}, {Keys: 1e7, Weight: 1}, {Keys: 1e8, Weight: 1}}
	curve := NewCacheLineBloomPolicy(DefaultBitsPerKey).Curve()
	bits := curve.Allocate(levels, 10*1.111e8)
	uniform := []float64{10, 10, 10, 10}
	fmt.Printf("bits per key: %.1f\n", bits)
	fmt.Printf("wasted reads per hundred lookups: %.1f; with 10 bits everywhere: %.1f\n",
		100*curve.Wasted(levels, bits), 100*curve.Wasted(levels, uniform))
	// Output:
	// bits per key: [20.0 20.0 15.0 9.4]
	// wasted reads per hundred lookups: 1.5; with 10 bits everywhere: 6.8
}
