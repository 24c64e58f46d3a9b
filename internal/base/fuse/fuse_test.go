package fuse

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/filtertest"
)

func TestSolverGivesUpOnOverfullSlots(t *testing.T) {
	shape := ShapeFor(1000, 0)
	for n, want := range map[int]bool{255: true, 256: false, 257: false, 512: false} {
		s := Solver{mixed: make([]uint64, n)}
		for i := range s.mixed {
			s.mixed[i] = 12345
		}
		require.Equal(t, want, s.count(int(shape.Slots()), shape), "%d keys", n)
	}
}

func TestReadersFindTheShape(t *testing.T) {
	require.Equal(t, ShapeFor(1, 0), ShapeFor(0, 0))
	for n := 1; n < MaxKeys; n += 1 + n/7 {
		for _, try := range []uint8{0, 1, Tries - 1} {
			for _, s := range []Shape{ShapeFor(n, try), PackedShape(n, try)} {
				require.Greater(t, s.Slots(), uint64(n), "%d keys", n)
				require.Less(t, s.Slots(), uint64(1)<<31-4, "%d keys", n)
				require.LessOrEqual(t, s.Lg, uint(MaxLg))
				found, ok := ShapeOf(s.Slots(), uint8(s.Lg), try)
				require.True(t, ok)
				require.Equal(t, s, found)
			}
			require.Zero(t, PackedShape(n, try).Slots()%8, "%d keys", n)
		}
	}
	for width := uint(1); width <= MaxWidth; width++ {
		require.Less(t, PackedSize(PackedShape(MaxPackedKeys(width), Tries-1), width), uint64(1)<<31-4)
	}
}

func randomHashes(rng *rand.Rand, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = rng.Uint64()
	}
	return hashes
}

// The values need not depend on the keys alone: here they are chosen at random.
func TestAPackedArrayReturnsTheChosenValues(t *testing.T) {
	rng := filtertest.NewRand(t)
	var s Solver
	for width := uint(1); width <= MaxWidth; width++ {
		for n := 0; n <= 3000; n += 1 + n/2 {
			hashes := randomHashes(rng, n)
			chosen := map[uint64]uint32{}
			array, distinct, ok := s.AppendPacked([]byte("front"), slices.Clone(hashes), width, Tries, func(Shape) func(uint64) uint32 {
				return func(mixed uint64) uint32 {
					if _, ok := chosen[mixed]; !ok {
						chosen[mixed] = rng.Uint32()
					}
					return chosen[mixed]
				}
			})
			require.True(t, ok)
			require.Len(t, distinct, n)
			require.Equal(t, "front", string(array[:5]))
			p, ok := ParsePacked(append(array[5:], 'e', 'n', 'd'), 3)
			require.True(t, ok)
			require.Equal(t, width, p.Width())
			for _, h := range hashes {
				mixed := p.shape.Mix(h)
				value := chosen[mixed]
				require.True(t, p.same(p.value(mixed), value), "%d keys, %d bits", n, width)
				require.False(t, p.same(p.value(mixed), value^1))
				require.False(t, p.same(p.value(mixed), value^1<<(width-1)))
				require.True(t, p.same(p.value(mixed), value^1<<width), "bits above the slot do not count")
				require.Equal(t, p.same(value, Fingerprint(mixed)), p.HashMayMatch(h))
			}
		}
	}
}

func TestAppendPackedGivesUp(t *testing.T) {
	var s Solver
	array, _, ok := s.AppendPacked([]byte("front"), []uint64{1, 2, 3}, 5, 0, Fingerprints)
	require.False(t, ok)
	require.Equal(t, "front", string(array))
}

func FuzzParsePacked(f *testing.F) {
	f.Add([]byte{}, 1, uint64(0))
	f.Add(append(make([]byte, 7*8), 0, 4, 7, 2), 1, uint64(12345))
	f.Add(append(make([]byte, 2*4), 9, 2, 2, 0, 0, 0, 0), 4, ^uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, end int, hash uint64) {
		if end < 0 || end > len(b) {
			return
		}
		p, ok := ParsePacked(b, end)
		if !ok {
			return
		}
		require.Equal(t, len(b), int(PackedSize(p.shape, p.Width()))+end)
		p.HashMayMatch(hash)
	})
}
