package filter

import (
	"fmt"
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
				for _, key := range keys {
					g.Add(key)
				}
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
	for _, key := range le32Keys(0, 200) {
		g.Add(key)
	}
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

// AppendChecked against AppendFilter: the cost of querying every key.
func BenchmarkGeneratorChecked(b *testing.B) {
	for _, n := range []int{2_000, 20_000, 1_000_000} {
		for _, checked := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/checked=%v", n, checked), func(b *testing.B) {
				g := NewBloomPolicy(10).NewGenerator().(*bloomGenerator)
				for _, key := range le32Keys(0, n) {
					g.Add(key)
				}
				hashes, buf := g.hashes, []byte(nil)
				for b.Loop() {
					g.hashes = hashes
					if checked {
						buf, _ = g.AppendChecked(buf[:0])
					} else {
						buf = g.AppendFilter(buf[:0])
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
		}
	}
}
