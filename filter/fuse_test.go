package filter

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/fuse"
	"github.com/sievedb/sievedb/internal/test/filtertest"
)

// fusePlaces returns the slots and the fingerprint of a key with this hash, as specified
// in fuse.go, with integers that do not wrap around.
func fusePlaces(hash uint64, slots, lg, number int) (places [4]int, print byte) {
	wrap := func(n *big.Int) uint64 { return new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64() }
	product := func(a, b uint64) *big.Int {
		return new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
	}
	m := wrap(product(0x9e3779b97f4a7c15, uint64(2*number+1)))
	p := product(hash, m)
	g := wrap(p) ^ new(big.Int).Rsh(p, 64).Uint64()
	size := 1 << lg
	first := int(new(big.Int).Rsh(product(g, uint64(slots-3*size)), 64).Int64())
	places[0] = first
	for i, shift := range []int{32, 16, 0} {
		segment, within := first/size+i+1, first%size
		places[i+1] = segment*size + within ^ int(g>>shift%uint64(size))
	}
	return places, byte(wrap(product(g, 0x9e3779b97f4a7c15)) >> 56)
}

func mayMatchFuse(t testing.TB, key, filter []byte) bool {
	t.Helper()
	return mayMatch(t, FusePolicy{}, key, filter)
}

func TestFuseProbesReadTheSpecifiedSlots(t *testing.T) {
	rng := filtertest.NewRand(t)
	for lg := 0; lg <= 16; lg++ {
		for _, segments := range []int{4, 5, 7, 33} {
			filter := make([]byte, segments<<lg+3)
			for i := range filter {
				filter[i] = byte(rng.Uint32()) & 3 // few values, so that many match
			}
			for _, number := range []int{0, 1, 31, 255} {
				copy(filter[segments<<lg:], []byte{byte(number), byte(lg), 1})
				probe := FusePolicy{}.NewProbe(filter)
				for i := range 300 {
					h := rng.Uint64()
					if i < len(edgeHashes) {
						h = uint64(edgeHashes[i]) << (8 * (i % 5))
					}
					places, print := fusePlaces(h, segments<<lg, lg, number)
					var sum byte
					for _, p := range places {
						sum ^= filter[p]
					}
					filter[places[0]] ^= sum ^ print
					require.True(t, probe.HashMayMatch(h), "lg %d, %d segments, hash %#x", lg, segments, h)
					filter[places[3]] ^= 0x40
					require.False(t, probe.HashMayMatch(h), "lg %d, %d segments, hash %#x", lg, segments, h)
				}
			}
		}
	}
}

// The example in fuse.go.
func TestFuseFilterByHand(t *testing.T) {
	var p FusePolicy
	for _, c := range []struct {
		key    string
		mixed  uint64
		places [4]int
		print  byte
	}{
		{"hello", 0x201c0e11b2ca81b4, [4]int{0, 3, 4, 6}, 0xf3},
		{"world", 0x41586371227cafd2, [4]int{1, 2, 5, 7}, 0x48},
	} {
		h := p.KeyHash([]byte(c.key))
		shape := fuse.Shape{Span: 4, Lg: 1, Mul: fuse.Multiplier(0)}
		require.Equal(t, c.mixed, shape.Mix(h))
		places, print := fusePlaces(h, 10, 1, 0)
		require.Equal(t, c.places, places)
		require.Equal(t, c.print, print)
	}
	filter := p.CreateFilter(nil, words("hello", "world"))
	require.Equal(t, []byte{0xf3, 0x48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}, filter)
	require.False(t, mayMatchFuse(t, []byte("sieve"), filter))
}

func TestMalformedFuseFiltersRuleNothingOut(t *testing.T) {
	var p FusePolicy
	good := p.CreateFilter(nil, le32Keys(0, 100))
	n := len(good) - 3
	requireRuleNothingOut(t, p, good, map[string][]byte{
		"nothing":   nil,
		"two bytes": {4, 1},
		"only the end, of a writer without a solution":    good[n:],
		"a segment cut by a byte":                         good[1:],
		"three segments":                                  good[n-3<<4:],
		"without its version":                             good[:len(good)-1],
		"a length that is not a multiple of the segments": changed(good, n+1, 6),
		"segments of more than 2^16 slots":                append(make([]byte, 4<<17), 0, 17, 1),
		"segments of 2^255 slots":                         changed(good, n+1, 255),
		"version 0":                                       changed(good, n+2, 0),
		"version 2":                                       changed(good, n+2, 2),
		"version 3":                                       changed(good, n+2, 3),
		"a filter of LevelDB's":                           NewBloomPolicy(10).CreateFilter(nil, le32Keys(0, 100)),
		"cache lines":                                     NewCacheLineBloomPolicy(10).CreateFilter(nil, le32Keys(0, 100)),
	})
}

// For every width of slots, many numbers of keys, and duplicates.
func TestFuseFiltersDenyNoKey(t *testing.T) {
	rng := filtertest.NewRand(t)
	buf := make([]byte, 0, 96)
	for width := 1; width <= MaxFuseBits; width++ {
		p, most := NewFusePolicy(width), 20_000
		if width == defaultFuseBits {
			most = 100_000
		}
		g := p.NewGenerator().(*fuseGenerator)
		for n := 0; n <= most; n += max(1, n/7) {
			shape := filtertest.KeyShapes[rng.IntN(len(filtertest.KeyShapes))]
			repeat := rng.IntN(4) == 0
			start := uint64(rng.Uint32())
			for i := range n {
				buf = shape.Key(buf[:0], start+uint64(i))
				g.Add(buf)
				if repeat && rng.IntN(10) == 0 {
					g.Add(buf)
				}
			}
			hashes := slices.Clone(g.hashes)
			require.Equal(t, len(hashes), g.Len())
			filter, denied := g.AppendChecked([]byte("front"))
			require.Zero(t, denied)
			require.Zero(t, g.Len())
			filter = filter[len("front"):]
			require.True(t, FusePolicy{}.Understands(filter), "%d keys, %d bits", n, width)
			require.Zero(t, countDeniedByFuse(filter, hashes), "%d keys, %d bits", n, width)
			require.True(t, p.Fits(filter, uint64(n)), "%d keys, %d bits", n, width)
		}
	}
}

func TestFuseFilterDependsOnlyOnTheSetOfKeys(t *testing.T) {
	rng := filtertest.NewRand(t)
	var p FusePolicy
	for _, n := range []int{1, 2, 3, 36, 1000, 5000} {
		keys := le32Keys(0, n)
		want := p.CreateFilter(nil, keys)
		for range 5 {
			for range rng.IntN(10) {
				keys = append(keys, keys[rng.IntN(len(keys))])
			}
			rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			require.Equal(t, want, p.CreateFilter(nil, keys), "whatever the order and duplicates")
			g := p.NewGenerator()
			addAll(g, keys)
			require.Equal(t, append([]byte("front"), want...), g.AppendFilter([]byte("front")))
		}
	}
	require.Equal(t, p.CreateFilter(nil, words("a")), p.CreateFilter(make([]byte, 0, 100), slices.Repeat(words("a"), 1000)))
}

// Every lost bit of a slot that a key uses is noticed.
func TestCountDeniedNoticesEveryLostFuseBit(t *testing.T) {
	for _, width := range []int{1, 5, 7, defaultFuseBits, 12, 16} {
		g := NewFusePolicy(width).NewGenerator().(*fuseGenerator)
		addAll(g, le32Keys(0, 200))
		hashes := slices.Clone(g.hashes)
		filter := g.AppendFilter(nil)
		tail := filter[len(filter)-4:]
		if width == defaultFuseBits {
			tail = tail[1:]
		}
		slots := (len(filter) - len(tail)) * 8 / width
		keysOf := make([]int, slots)
		for _, h := range hashes {
			places, _ := fusePlaces(h, slots, int(tail[1]), int(tail[0]))
			for _, p := range places {
				keysOf[p]++
			}
		}
		for bit := range slots * width {
			filter[bit/8] ^= 1 << (bit % 8)
			require.Equal(t, keysOf[bit/width], countDeniedByFuse(filter, hashes), "bit %d of %d-bit slots", bit, width)
			filter[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestUnsolvableFuseFilterRulesNothingOut(t *testing.T) {
	for slotBits, tail := range map[int][]byte{8: {0, 0, 1}, 7: {0, 0, 7, 2}} {
		generator := func(hashes ...uint64) *fuseGenerator { return &fuseGenerator{slotBits: slotBits, hashes: hashes} }
		hashes := []uint64{3, 1, 2, 3, 1}
		filter, distinct := generator(hashes...).appendFilter([]byte("front"), 0)
		require.Equal(t, append([]byte("front"), tail...), filter, "no tries, no slots")
		require.Equal(t, hashes, distinct)
		require.False(t, FusePolicy{}.Understands(filter[5:]))
		require.True(t, mayMatchFuse(t, []byte("a"), filter[5:]))
		require.Zero(t, countDeniedByFuse(filter[5:], hashes))

		// Two keys with the same four slots for the first multiplier: a second one has a solution.
		first := fuse.ShapeFor(2, 0)
		if slotBits != 8 {
			first = fuse.PackedShape(2, 0)
		}
		places := func(h uint64) [4]uint64 {
			a, b, c, d := first.Places(first.Mix(h))
			return [4]uint64{a, b, c, d}
		}
		other := uint64(2)
		for places(other) != places(1) {
			other++
		}
		filter, _ = generator(1, other).appendFilter(nil, fuse.Tries)
		second := slices.Concat([]byte{1, 1}, tail[2:])
		require.Equal(t, second, filter[len(filter)-len(second):])
		require.Zero(t, countDeniedByFuse(filter, []uint64{1, other}))
		filter, _ = generator(1, other).appendFilter(nil, 1)
		require.Equal(t, tail, filter)
	}
}

// The sizes in the package comment, and those of other slots than those of 8 bits. Nearly all filters have them.
func TestFuseFiltersHaveThePredictedSize(t *testing.T) {
	rng := filtertest.StatisticsRand(t)
	for _, c := range []struct {
		slotBits, keys int
		bits           string
	}{
		{8, 1, "120"}, {8, 10, "21.6"}, {8, 100, "13"}, {8, 1000, "10.8"}, {8, 10_000, "9.63"}, {8, 20_000, "9.42"},
		{8, 100_000, "8.93"}, {8, 1_000_000, "8.55"}, {8, 10_000_000, "8.51"}, {8, 100_000_000, "8.5"},
		{7, 1, "144"}, {7, 100, "11.5"}, {7, 10_000, "8.43"}, {7, 20_000, "8.24"}, {7, 100_000, "7.81"},
		{7, 1_000_000, "7.48"}, {3, 20_000, "3.53"}, {5, 20_000, "5.89"}, {12, 20_000, "14.1"}, {12, 1_000_000, "12.8"},
	} {
		p := NewFusePolicy(c.slotBits)
		size := p.FilterSize(uint64(c.keys))
		require.Equal(t, c.bits, fmt.Sprintf("%.3g", 8*float64(size)/float64(c.keys)), "%+v", c)
		if c.keys > 100_000 {
			continue
		}
		rounds, larger := max(10, min(1000, 500_000/c.keys)), 0
		for range rounds {
			filter := fuseOfRandomHashes(rng, p, c.keys)
			require.LessOrEqual(t, uint64(len(filter)), size+size/2+4, "%+v", c)
			if uint64(len(filter)) > size {
				larger++
			}
		}
		require.LessOrEqual(t, larger, rounds/4+3, "of %d filters, %+v", rounds, c)
	}
	require.EqualValues(t, 3, FusePolicy{}.FilterSize(math.MaxUint64))
	require.Equal(t, 1.0/256, FusePolicy{}.PredictedRate(0))
	require.InEpsilon(t, 1.0/256, FusePolicy{}.PredictedRate(100_000_000), 1e-6)
}

func fuseOfRandomHashes(rng *rand.Rand, p FusePolicy, n int) []byte {
	g := fuseGenerator{slotBits: p.SlotBits(), hashes: make([]uint64, n)}
	for i := range g.hashes {
		g.hashes[i] = rng.Uint64()
	}
	return g.AppendFilter(nil)
}
