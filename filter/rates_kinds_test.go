package filter

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var ratesDenials = flag.Int("rates.denials", 1_000_000, "how many keys each kind of filter is asked for that went in")

// kindSizes are rateSizes for the kinds that are not made of hashes.
func kindSizes() []rateSize {
	if !*ratesLong {
		few := []int{4, 10, 16}
		return []rateSize{{keys: 1000, filters: 10, asked: 20_000, bits: few}, {keys: 10_000, filters: 2, asked: 20_000, bits: few}}
	}
	all := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	return []rateSize{
		{keys: 1000, filters: 100, asked: 400_000, bits: all},
		{keys: 10_000, filters: 10, asked: 400_000, bits: all},
		{keys: 100_000, filters: 1, asked: 400_000, bits: all},
		{keys: 1_000_000, filters: 1, asked: 400_000, bits: []int{4, 7, 10, 13, 16, 20}},
		{keys: 10_000_000, filters: 1, asked: 400_000, bits: []int{10}},
	}
}

// kindShapes are shapes of keys that begin with eight bytes of their own.
var kindShapes = []string{"random", "u64-big-endian", "u64-little-endian"}

func shapeNamed(name string) func([]byte, uint64) []byte {
	for _, s := range rateShapes {
		if s.name == name {
			return s.key
		}
	}
	panic("no shape " + name)
}

// eachCell calls fn for each filter of each cell: the keys with even numbers below
// 2 × keys are stored.
func eachCell(kind string, fn func(c *askedCell, s rateSize, bits int, key func(i uint64) []byte)) rateTallies {
	all := rateTallies{}
	for _, s := range kindSizes() {
		for _, shape := range kindShapes {
			for _, bits := range s.bits {
				c := askedCell{kind: kind, cell: fmt.Sprintf("%d keys, %d bits, %s", s.keys, bits, shape)}
				shaped, buf := shapeNamed(shape), make([]byte, 0, 32)
				for f := range uint64(s.filters) {
					first := f * uint64(max(s.keys, s.asked/s.filters))
					fn(&c, s, bits, func(i uint64) []byte {
						buf = shaped(buf[:0], 2*first+i)
						return buf
					})
				}
				if c.asked > 0 {
					all.add(c)
				}
			}
		}
	}
	return all
}

// ask asks a filter for the keys with odd numbers.
func (c *askedCell) ask(s rateSize, rate float64, key func(uint64) []byte, may func([]byte) bool) {
	n := s.asked / s.filters
	for i := range uint64(n) {
		if may(key(2*i + 1)) {
			c.passed++
		}
	}
	c.asked, c.expected = c.asked+n, c.expected+rate*float64(n)
}

func TestMeasuredRatesOfPrefixFiltersAreThePredictedOnes(t *testing.T) {
	eachCell("prefixes", func(c *askedCell, s rateSize, bits int, key func(uint64) []byte) {
		p := NewPrefix(FixedPrefix(8), bits)
		g := p.NewRangeGenerator()
		for i := range uint64(s.keys) {
			g.Add(key(2 * i))
		}
		filter, denied := g.AppendChecked(nil)
		require.Zero(t, denied)
		probe, ok := p.NewRangeProbe(filter)
		require.True(t, ok)
		lines, k := cacheLineShape(uint64(s.keys), bits)
		c.ofFilters = linesVariance(uint64(s.keys), lines, k) / float64(s.filters)
		c.ask(s, p.PredictedRate(uint64(s.keys)), key, func(k []byte) bool {
			return probe.RangeMayMatch(k[:8], append(k[:8:8], 0xff))
		})
	}).require(t)
}

// As many bits a key as an ideal filter takes for the rate; four times that in memory, for
// counters have four bits.
func TestMeasuredRatesOfCountingFiltersAreThePredictedOnes(t *testing.T) {
	eachCell("counting", func(c *askedCell, s rateSize, bits int, key func(uint64) []byte) {
		f, err := NewCountingBloom(uint64(s.keys), math.Pow(0.6185, float64(bits)))
		require.NoError(t, err)
		for i := range uint64(s.keys) {
			f.Add(key(2 * i))
		}
		c.ofFilters = bloomVariance(f.keys, f.slots, f.k) / float64(s.filters)
		c.ask(s, f.PredictedRate(), key, f.MayContain)
	}).require(t)
}

// Made for a quarter of the keys, so that they grow.
func TestMeasuredRatesOfScalableFiltersAreThePredictedOnes(t *testing.T) {
	eachCell("scalable", func(c *askedCell, s rateSize, bits int, key func(uint64) []byte) {
		rate := math.Pow(0.6185, float64(bits))
		f, err := NewScalableBloom(uint64(s.keys)/4, rate)
		require.NoError(t, err)
		for i := range uint64(s.keys) {
			f.Add(key(2 * i))
		}
		require.Greater(t, len(f.stages), 1)
		require.LessOrEqual(t, f.PredictedRate(), rate)
		c.ask(s, f.PredictedRate(), key, f.MayContain)
	}).require(t)
}

// Numbers far from each other; counters err less (TestGrafiteTellsDenseNumbersApartExactly).
func TestMeasuredRatesOfGrafiteFiltersAreThePredictedOnes(t *testing.T) {
	for _, length := range []uint64{1, 32} {
		t.Run(fmt.Sprintf("length=%d", length), func(t *testing.T) {
			eachCell("Grafite", func(c *askedCell, s rateSize, bits int, key func(uint64) []byte) {
				if strings.HasSuffix(c.cell, "big-endian") {
					return
				}
				p := NewGrafite(FixedPrefix(0), BigEndian(8), bits)
				require.LessOrEqual(t, p.PredictedRate(length), math.Ldexp(float64(length), 2-bits), "the paper's bound")
				probe := grafiteOf(t, p, s.keys, key)
				load := math.Ldexp(float64(length), 2-bits)
				zeros := math.Exp(-load)
				c.ofFilters = zeros * (1 - (1+load)*zeros) / ((1 - zeros) * (1 - zeros)) / float64(s.keys*s.filters)
				c.ask(s, p.PredictedRate(length), key, func(k []byte) bool {
					x := binary.BigEndian.Uint64(k)
					return probe.RangeMayMatch(k[:8], counterKey(x+length))
				})
			}).require(t)
		})
	}
}

func grafiteOf(t *testing.T, p GrafitePolicy, keys int, key func(uint64) []byte) RangeProbe {
	g := p.NewRangeGenerator()
	for i := range uint64(keys) {
		g.Add(key(2 * i)[:8])
	}
	filter, denied := g.AppendChecked(nil)
	require.Zero(t, denied)
	probe, ok := p.NewRangeProbe(filter)
	require.True(t, ok)
	return probe
}

// deniers are all kinds of filters. Each makes one and returns how it is asked.
var deniers = []struct {
	kind string
	make func(keys [][]byte, bits int) func(key []byte) bool
}{
	{"LevelDB's bloom", func(keys [][]byte, bits int) func([]byte) bool { return asking(NewBloomPolicy(bits), keys) }},
	{"cache lines", func(keys [][]byte, bits int) func([]byte) bool { return asking(NewCacheLineBloomPolicy(bits), keys) }},
	{"binary fuse", func(keys [][]byte, _ int) func([]byte) bool { return asking(FusePolicy{}, keys) }},
	{"the old name", func(keys [][]byte, _ int) func([]byte) bool { return asking(LegacyBloom, keys) }},
	{"prefixes", func(keys [][]byte, bits int) func([]byte) bool { return asking2(NewPrefix(FixedPrefix(6), bits), keys) }},
	{"Grafite", func(keys [][]byte, bits int) func([]byte) bool {
		// The last eight bytes are what tells keys of most shapes apart.
		return asking2(NewGrafite(FixedPrefix(len(keys[0])-8), BigEndian(8), bits), keys)
	}},
	{"counting", func(keys [][]byte, bits int) func([]byte) bool {
		f, _ := NewCountingBloom(uint64(len(keys)), math.Pow(0.6185, float64(bits)))
		for _, k := range keys {
			f.Add(k)
		}
		return f.MayContain
	}},
	{"scalable", func(keys [][]byte, bits int) func([]byte) bool {
		f, _ := NewScalableBloom(uint64(len(keys))/3, math.Pow(0.6185, float64(bits)))
		for _, k := range keys {
			f.Add(k)
		}
		return f.MayContain
	}},
}

func asking(p Policy, keys [][]byte) func([]byte) bool {
	filter := p.CreateFilter(nil, keys)
	h, ok := p.(HashPolicy)
	if !ok {
		return func(key []byte) bool { return p.KeyMayMatch(key, filter) }
	}
	probe := h.NewProbe(filter)
	return func(key []byte) bool { return probe.HashMayMatch(h.KeyHash(key)) }
}

func asking2(p RangePolicy, keys [][]byte) func([]byte) bool {
	g := p.NewRangeGenerator()
	for _, k := range keys {
		g.Add(k)
	}
	filter, _ := g.AppendChecked(nil)
	probe, ok := p.NewRangeProbe(filter)
	if !ok {
		return func([]byte) bool { return false }
	}
	upper := make([]byte, 0, 96)
	return func(key []byte) bool {
		upper = append(append(upper[:0], key...), 0)
		return probe.RangeMayMatch(key, upper)
	}
}

// Filters of a thousand to a hundred thousand keys of every shape, in the long run to a
// million, with 4 to 20 bits a key.
func TestNoKindOfFilterDeniesAKeyThatWentIn(t *testing.T) {
	sizes := []int{1000, 10_000, 100_000}
	if *ratesDenials > 10_000_000 {
		sizes = append(sizes, 1_000_000)
	}
	asked, first := 0, uint64(0)
	var arena []byte
	var keys [][]byte
	for round := 0; asked < *ratesDenials; round++ {
		n := min(sizes[round%len(sizes)], *ratesDenials-asked)
		shape, bits := rateShapes[round%len(rateShapes)], 4+round%17
		arena, keys = arena[:0], keys[:0]
		for i := range uint64(n) {
			start := len(arena)
			arena = shape.key(arena, first+i)
			keys = append(keys, arena[start:len(arena):len(arena)])
		}
		for _, d := range deniers {
			may := d.make(keys, bits)
			for _, key := range keys {
				if !may(key) {
					require.Fail(t, "a key that went in is denied", "%s, %d keys, %d bits, %s: %x", d.kind, n, bits, shape.name, key)
				}
			}
		}
		asked, first = asked+n, first+uint64(n)
	}
	t.Logf("%d keys of each of %d kinds, 0 denied", asked, len(deniers))
}
