package filter

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// linePlaces returns the line, and the bits within it, of a key with this hash, as
// specified in cacheline.go, with integers that do not wrap around.
func linePlaces(hash, lines uint64, k int) (line uint64, places []uint64) {
	product := new(big.Int).Mul(new(big.Int).SetUint64(hash), new(big.Int).SetUint64(lines))
	line = product.Rsh(product, 64).Uint64()
	h := hash
	for i := range k {
		if i%2 == 0 {
			h *= 0x9e3779b97f4a7c15
			places = append(places, h>>55)
		} else {
			places = append(places, h<<9>>55)
		}
	}
	return line, places
}

func TestCacheLineFilterBitsMatchTheSpecification(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, n := range []int{1, 2, 50, 51, 52, 1000} {
		for bitsPerKey := 1; bitsPerKey <= 45; bitsPerKey++ {
			hashes := make([]uint64, n)
			want := make([]byte, (n*bitsPerKey+511)/512*64+2)
			k := CacheLineHashes(bitsPerKey)
			want[len(want)-2], want[len(want)-1] = byte(k), 1
			for i := range hashes {
				hashes[i] = rng.Uint64()
				line, places := linePlaces(hashes[i], uint64(len(want)/64), k)
				for _, p := range places {
					want[line*64+p/8] |= 1 << (p % 8)
				}
			}
			g := cacheLineGenerator{bitsPerKey: bitsPerKey, hashes: hashes}
			require.Equal(t, want, g.AppendFilter(nil), "%d keys at %d bits", n, bitsPerKey)
		}
	}
}

// Lines of any density, and every k that a reader accepts.
//
// False alarms: one of the requirements at the end fails if all of 190 random hashes get
// the same answer for k 1, and for every other k. At a density of a half or seven eighths
// that has a probability of (7/8)^190 for k 1, (49/64)^190 for k 2, and less for larger k:
// below 10^-32 in total.
func TestCacheLineProbesTestTheSpecifiedBits(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, lines := range []int{1, 2, 3, 17, 1000} {
		for _, dense := range []bool{false, true} {
			filter := make([]byte, lines*64+2)
			for i := range lines * 64 {
				filter[i] = byte(rng.Uint32())
				if dense {
					filter[i] |= byte(rng.Uint32() | rng.Uint32()>>8)
				}
			}
			filter[lines*64+1] = 1
			yes := 0
			for k := 1; k <= 30; k++ {
				filter[lines*64] = byte(k)
				probe := NewCacheLineBloomPolicy(1).NewProbe(filter)
				for i := range 200 {
					h := rng.Uint64()
					if i < len(edgeHashes) {
						h = uint64(edgeHashes[i]) << (8 * (i % 5))
					}
					line, places := linePlaces(h, uint64(lines), k)
					want := true
					for _, p := range places {
						want = want && filter[line*64+p/8]>>(p%8)&1 != 0
					}
					require.Equal(t, want, probe.HashMayMatch(h), "%d lines, k %d, hash %#x", lines, k, h)
					if want {
						yes++
					}
				}
			}
			require.NotZero(t, yes, "both answers must occur")
			require.NotEqual(t, 200*30, yes, "both answers must occur")
		}
	}
}

// The example in cacheline.go.
func TestCacheLineFilterByHand(t *testing.T) {
	p := NewCacheLineBloomPolicy(10)
	require.Equal(t, uint64(0x9555e8555c62dcfd), p.KeyHash([]byte("hello")))
	require.Equal(t, uint64(0xd6476c25083d69be), p.KeyHash([]byte("world")))
	want := make([]byte, 66)
	for _, bit := range []int{248, 349, 282, 391, 429, 353, 394, 219, 194, 480, 438, 390} {
		want[bit/8] |= 1 << (bit % 8)
	}
	want[64], want[65] = 6, 1
	require.Equal(t, []byte{
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0x04, 0, 0, 0x08, 0, 0, 0, 0x01,
		0, 0, 0, 0x04, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x02, 0, 0, 0,
		0xc0, 0x04, 0, 0, 0, 0x20, 0x40, 0, 0, 0, 0, 0, 0x01, 0, 0, 0,
		6, 1,
	}, want)
	require.Equal(t, want, p.CreateFilter(nil, words("hello", "world")))
}

func TestMalformedCacheLineFiltersRuleNothingOut(t *testing.T) {
	p := NewCacheLineBloomPolicy(10)
	good := p.CreateFilter(nil, le32Keys(0, 100))
	n := len(good)
	requireRuleNothingOut(t, p, good, map[string][]byte{
		"nothing":               nil,
		"one byte":              {1},
		"k and version alone":   good[n-2:],
		"a line cut by a byte":  good[1:],
		"a line and a half":     append(make([]byte, 96), 6, 1),
		"without its version":   good[:n-1],
		"k of 0":                changed(good, n-2, 0),
		"k of 31":               changed(good, n-2, 31),
		"version 0":             changed(good, n-1, 0),
		"version 2":             changed(good, n-1, 2),
		"a filter of LevelDB's": NewBloomPolicy(10).CreateFilter(nil, le32Keys(0, 100)),
	})
	require.True(t, NewBloomPolicy(10).Understands(nil), "LevelDB's encoding has no versions")
}

func TestCacheLineFiltersStayBelowTwoGigabytes(t *testing.T) {
	for _, c := range []struct {
		keys  uint64
		bits  int
		lines uint64
		k     int
	}{
		{0, 10, 1, 6},
		{1, 10, 1, 6},
		{51, 10, 1, 6},
		{52, 10, 2, 6},
		{1_000_000, 10, 19_532, 6},
		{1_717_986_867, 10, maxLines, 6},
		{1_717_986_918, 10, maxLines, 6},
		{1 << 32, 10, maxLines, 2}, // slightly less than 4 bits per key
		{1 << 40, 10, maxLines, 1},
		{1<<64 - 1, 100, maxLines, 1},
	} {
		t.Run(fmt.Sprintf("keys=%d/bits=%d", c.keys, c.bits), func(t *testing.T) {
			lines, k := cacheLineShape(c.keys, c.bits)
			require.Equal(t, c.lines, lines)
			require.Equal(t, c.k, k)
		})
	}
	require.Less(t, uint64(maxLines*lineBytes+lineTailBytes), uint64(1)<<31)
}

func TestSmallCacheLineFiltersGetAWholeLine(t *testing.T) {
	p := NewCacheLineBloomPolicy(10)
	empty := p.CreateFilter(nil, nil)
	require.Len(t, empty, 64+2)
	require.False(t, mayMatch(t, p, []byte("a"), empty), "without keys every key is absent")
	require.Equal(t, empty, p.NewGenerator().AppendFilter(nil))
}
