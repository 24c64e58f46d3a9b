package filter

import (
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/fuse"
	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// slotOf returns slot i of an array of packed slots, as specified in fuse.go: the array is one
// number, least byte first.
func slotOf(array []byte, i, width int) int {
	number := slices.Clone(array)
	slices.Reverse(number)
	n := new(big.Int).Rsh(new(big.Int).SetBytes(number), uint(i*width))
	return int(new(big.Int).And(n, big.NewInt(1<<width-1)).Int64())
}

// packedPrint returns the fingerprint of a hash as specified in fuse.go.
func packedPrint(hash uint64, number, width int) int {
	m := uint64(0x9e3779b97f4a7c15) * uint64(2*number+1)
	p := new(big.Int).Mul(new(big.Int).SetUint64(hash), new(big.Int).SetUint64(m))
	g := new(big.Int).Rsh(p, 64).Uint64() ^ hash*m
	return int(g * 0x9e3779b97f4a7c15 >> 32 % (1 << width))
}

func TestPackedFuseProbesReadTheSpecifiedSlots(t *testing.T) {
	rng := filtertest.NewRand(t)
	for width := 1; width <= 16; width++ {
		for _, lg := range []int{0, 1, 3, 6} {
			for _, segments := range []int{8, 16, 32} {
				slots := segments << lg
				array := make([]byte, slots*width/8)
				for i := range array {
					array[i] = byte(rng.Uint32())
				}
				number := rng.IntN(256)
				filter := append(array, byte(number), byte(lg), byte(width), 2)
				probe := FusePolicy{}.NewProbe(filter)
				matched := 0
				for i := range 10 << min(width, 3) {
					h := rng.Uint64()
					if i < len(edgeHashes) {
						h = uint64(edgeHashes[i]) << (8 * (i % 5))
					}
					places, _ := fusePlaces(h, slots, lg, number)
					sum := 0
					for _, p := range places {
						sum ^= slotOf(array[:slots*width/8], p, width)
					}
					want := sum == packedPrint(h, number, width)
					require.Equal(t, want, probe.HashMayMatch(h), "lg %d, %d slots of %d bits, hash %#x", lg, slots, width, h)
					if want {
						matched++
					}
				}
				require.True(t, width > 3 || matched > 0, "both answers must occur")
			}
		}
	}
}

// The example in fuse.go.
func TestPackedFuseFilterByHand(t *testing.T) {
	p := NewFusePolicy(7)
	for key, want := range map[string]struct {
		places [4]int
		print  int
	}{"hello": {[4]int{1, 2, 5, 7}, 0x03}, "world": {[4]int{2, 5, 6, 8}, 0x02}} {
		h := p.KeyHash([]byte(key))
		places, _ := fusePlaces(h, 16, 1, 0)
		require.Equal(t, want.places, places)
		require.Equal(t, want.print, packedPrint(h, 0, 7))
	}
	filter := p.CreateFilter(nil, words("hello", "world"))
	require.Equal(t, "8080000000000000000000000000"+"00010702", hex.EncodeToString(filter))
	require.False(t, mayMatchFuse(t, []byte("sieve"), filter))
}

func TestMalformedPackedFuseFiltersRuleNothingOut(t *testing.T) {
	p := NewFusePolicy(7)
	good := p.CreateFilter(nil, le32Keys(0, 100))
	require.True(t, FusePolicy{}.Understands(good), "the reader's bits must not matter")
	n := len(good) - 4
	requireRuleNothingOut(t, p, good, map[string][]byte{
		"only the version": {2},
		"three bytes":      {4, 7, 2},
		"only the end, of a writer that found no solution": good[n:],
		"a group cut by a byte":                            good[1:],
		"less than four segments":                          append(make([]byte, 7*6), 0, 4, 7, 2),
		"groups that are not whole segments":               append(make([]byte, 7*9), 0, 4, 7, 2),
		"slots of no bits":                                 changed(good, n+2, 0),
		"slots of 17 bits":                                 append(make([]byte, 17*8), 0, 3, 17, 2),
		"slots of 255 bits":                                changed(good, n+2, 255),
		"segments of more than 2^16 slots":                 append(make([]byte, 4<<17/8), 0, 17, 1, 2),
		"segments of 2^255 slots":                          changed(good, n+1, 255),
		"version 3":                                        changed(good, n+3, 3),
		"the width of another number of groups":            changed(good, n+2, 11),
	})
}

// Whatever the number of keys, and the tries that they took.
func TestAFilterFitsNoPolicyWithOtherBits(t *testing.T) {
	rng := filtertest.NewRand(t)
	for _, keys := range []int{0, 1, 2, 10, 100, 1000, 3000} {
		for width := 1; width <= MaxFuseBits; width++ {
			filter := fuseOfRandomHashes(rng, NewFusePolicy(width), keys)
			for b := 1; b <= MaxFuseBits; b++ {
				require.Equal(t, b == width, NewFusePolicy(b).Fits(filter, uint64(keys)), "%d keys, %d bits", keys, width)
			}
			require.False(t, NewFusePolicy(width).Fits(filter, uint64(2*keys+100)), "another number of keys")
			require.False(t, NewFusePolicy(width).Fits(filter, math.MaxUint64))
			require.False(t, NewFusePolicy(width).Fits(filter[1:], uint64(keys)))
		}
	}
	for try := range uint8(fuse.Tries) { // the tries that random keys never need, too
		for _, p := range []FusePolicy{{}, NewFusePolicy(7)} {
			filter := make([]byte, p.sizeAt(5000, try))
			shape, tail := fuse.ShapeFor(5000, try), []byte{try, 0, fuseVersion}
			if p != (FusePolicy{}) {
				tail = []byte{try, 0, 7, fusePackedVersion}
			}
			tail[1] = byte(shape.Lg)
			copy(filter[len(filter)-len(tail):], tail)
			require.True(t, p.Fits(filter, 5000), "try %d", try)
		}
	}
	require.False(t, FusePolicy{}.Fits([]byte{0, 0, fuseVersion}, 5), "a writer that found no solution")
	require.False(t, FusePolicy{}.Fits(nil, 0))
}

func TestFusePoliciesWithTheSameBitsAreEqual(t *testing.T) {
	require.Equal(t, FusePolicy{}, NewFusePolicy(8))
	require.Equal(t, NewFusePolicy(1), NewFusePolicy(-5))
	require.Equal(t, NewFusePolicy(MaxFuseBits), NewFusePolicy(1000))
	for b := 1; b <= MaxFuseBits; b++ {
		p := NewFusePolicy(b)
		require.Equal(t, b, p.SlotBits())
		require.InEpsilon(t, math.Pow(2, -float64(b)), p.PredictedRate(20_000), 1e-6)
		require.Equal(t, 1.0, p.PredictedRate(math.MaxUint64))
		require.LessOrEqual(t, p.FilterSize(math.MaxUint64), uint64(4))
		largest := p.sizeAt(p.maxKeys(), fuse.Tries-1)
		require.Less(t, largest, uint64(1)<<31, "%d bits", b)
	}
}

func TestTheNumberOfKeysOfAFuseFilterIsEstimated(t *testing.T) {
	for keys := uint64(300); keys < fuse.MaxKeys; keys = keys * 9 / 7 {
		slots := fuse.ShapeFor(int(keys), 0).Slots()
		require.InEpsilon(t, float64(keys), float64(keysOfFuse(slots)), 0.06, "%d slots", slots)
	}
	require.Zero(t, keysOfFuse(0))
	require.EqualValues(t, fuse.MaxKeys, keysOfFuse(math.MaxUint64))
}
