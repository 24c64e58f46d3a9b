package filter

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

func TestBitOfIsTheExactRemainder(t *testing.T) {
	rng := filtertest.NewRand(t)
	check := func(h, bytes uint32) {
		at, bit := bitOf(h, reciprocal(8*bytes), uint64(bytes))
		if want := uint64(h % (8 * bytes)); at != want/8 || bit != want%8 {
			require.Fail(t, "another bit", "%d mod 8 x %d is %d, not bit %d of byte %d", h, bytes, want, bit, at)
		}
	}
	around := func(bytes uint32) {
		m := 8 * bytes
		top := math.MaxUint32 / m * m // the greatest multiple of m
		for _, h := range []uint32{0, 1, m - 1, m, m + 1, top - 1, top, top + m - 1, math.MaxUint32} {
			check(h, bytes)
		}
		for range 20 {
			check(rng.Uint32(), bytes)
		}
	}
	for n := uint32(1); n <= 4096; n++ {
		around(n)
		around(n * 8)
		around(maxBloomBytes - n + 1)
	}
	for shift := range 29 {
		around(1 << shift)
		around(1<<shift | 1)
	}
	for range 20000 {
		around(1 + rng.Uint32N(maxBloomBytes))
	}
}

// TestProbeEqualsThePlainLoop compares the two forms of a query for every k and for many sizes, on arrays that are
// almost full, half full and almost empty, so that both answers occur after any number of bits.
//
// False alarms: in an array of 512 bits or more of which an eighth is set (or clear), all of 180 random hashes of k 1
// and of k 2 get the same answer with a probability of (7/8)^180 × (63/64)^180 at the mean density, or 2 × 10^-12. An
// array so sparse that this probability is a hundred times higher is just as rare. Larger arrays all look the same to
// the hashes.
func TestProbeEqualsThePlainLoop(t *testing.T) {
	rng := filtertest.NewRand(t)
	sizes := []int{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 251, 256, 1000, 1021, 4096, 65537, 1 << 20}
	for _, size := range sizes {
		for _, density := range []string{"sparse", "half", "dense"} {
			array := make([]byte, size)
			for i := range array {
				a, b, c := byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())
				switch density {
				case "sparse":
					array[i] = a & b & c
				case "half":
					array[i] = a
				case "dense":
					array[i] = a | b | c
				}
			}
			yes := 0
			for k := 1; k <= maxBloomHashes; k++ {
				probe := makeBloomProbe(array, k)
				for i := range 200 {
					h := rng.Uint32()
					if i < len(edgeHashes) {
						h = edgeHashes[i]
					}
					want := plainMayMatch(array, k, h)
					if want != probe.HashMayMatch(uint64(h)) {
						require.Fail(t, "the probe differs", "size %d, k %d, hash %#x, plain %v", size, k, h, want)
					}
					if want {
						yes++
					}
				}
			}
			if size >= 64 {
				require.NotZero(t, yes, "both answers must occur")
				require.NotEqual(t, 200*maxBloomHashes, yes, "both answers must occur")
			}
		}
	}
}

var edgeHashes = []uint32{0, 1, 7, 8, math.MaxUint32, math.MaxUint32 - 1, 1 << 31, 1 << 17, 1 << 15, 0x55555555, 0xaaaaaaaa}

func TestProbeIgnoresUpperHashBits(t *testing.T) {
	p := BloomPolicy{}
	probe := p.NewProbe(p.CreateFilter(nil, words("hello")))
	require.True(t, probe.HashMayMatch(p.KeyHash([]byte("hello"))|0xdeadbeef<<32))
}
