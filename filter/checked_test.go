package filter

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendCheckedMakesWhatAppendFilterMakes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 100, 5000} {
		for _, bitsPerKey := range []int{1, 5, 10, 20, 44} {
			for _, p := range []BloomPolicy{NewBloomPolicy(bitsPerKey), NewCacheLineBloomPolicy(bitsPerKey)} {
				keys := le32Keys(0, n)
				g := p.NewGenerator().(CheckedGenerator)
				addAll(g, keys)
				got, denied := g.AppendChecked([]byte("front"))
				require.Zero(t, denied, "%d keys, %d bits", n, bitsPerKey)
				require.Equal(t, p.CreateFilter([]byte("front"), keys), got)
				require.Zero(t, g.Len(), "the generator can be used again")
			}
		}
	}
}

// Every lost bit of a filter is noticed.
func TestCountDeniedNoticesEveryLostBit(t *testing.T) {
	p := NewBloomPolicy(10)
	g := p.NewGenerator().(*bloomGenerator)
	addAll(g, le32Keys(0, 200))
	filter := appendBloom(nil, g.hashes, g.bitsPerKey)
	require.Zero(t, countDenied(filter, g.hashes))
	for i, b := range filter[:len(filter)-1] {
		for ; b != 0; b &= b - 1 {
			bit := byte(1) << bits.TrailingZeros8(b)
			filter[i] ^= bit
			require.Positive(t, countDenied(filter, g.hashes), "byte %d", i)
			filter[i] ^= bit
		}
	}
	require.Equal(t, 200, countDenied(nil, g.hashes))
}
