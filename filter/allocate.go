package filter

import (
	"math"
	"slices"
)

// A Curve is the false-positive rate, 0 to 1, of a kind of filter at 0, 1, 2, … bits per
// key; at 0 bits it is 1. More bits than the curve has entries for gain nothing.
type Curve []float64

// mostCacheLineBits ends the curve of cache lines. Beyond it a bit per key in one level
// saves less than in another. LevelDB's curve ends at 16, because of its 32-bit hash.
const mostCacheLineBits = 20

// Curve returns the rates predicted for p's filters of some ten thousand keys, a typical
// table, from 0 to 16 bits per key, or to 20 for cache lines. The caller owns the slice.
func (p BloomPolicy) Curve() Curve {
	if p.layout == levelDBLayout {
		return slices.Clone(levelDBCurve)
	}
	const keys = 1 << 15
	c := Curve{1}
	for b := 1; b <= mostCacheLineBits; b++ {
		c = append(c, newBloomPolicy(p.layout, b).PredictedRate(keys))
	}
	return c
}

// levelDBCurve is the mean of PredictedRate for filters of 15,013 keys, of a twelfth more,
// and so on below 50,000. The rate of a single size depends on its exact number of bits.
var levelDBCurve = Curve{
	1, 0.6321, 0.3934, 0.2442, 0.1607, 0.1026, 0.06253, 0.04105, 0.02653,
	0.01527, 0.009667, 0.006019, 0.003616, 0.002389, 0.001415, 0.0008425, 0.0005663,
}

// Rate returns the rate at bits per key, which need not be a whole number: the mean rate of
// filters with the next lower and the next higher number of bits.
func (c Curve) Rate(bits float64) float64 {
	last := len(c) - 1
	switch {
	case last < 0:
		return 1
	case !(bits > 0):
		return c[0]
	case bits >= float64(last):
		return c[last]
	}
	i := int(bits)
	part := bits - float64(i)
	return c[i] + part*(c[i+1]-c[i])
}

// LevelLoad describes a level of an LSM tree for the allocation of filter bits.
type LevelLoad struct {
	// Keys is the total number of keys in the level's filters: the cost of one bit per key.
	Keys float64
	// Weight is the number of reads that a lookup would waste in the level without filters: the number of its sorted
	// runs (one, or the number of files of level 0), times the probability that a lookup reaches the level, times the
	// cost of a read there. For lookups of absent keys, a level of disjoint tables has weight 1.
	Weight float64
}

// Allocate returns the bits per key of each level that minimize the reads wasted by lookups, given the number of bits
// of all filters together. The last level, which has most of the keys, gets few bits, and a level in which bits help
// little gets none. The results are not whole numbers: if a level gets 9.4, four of ten of its filters should have 10
// bits per key and the others 9. A level without keys gets the maximum of the curve.
//
// This is the problem of Dayan, Athanassoulis and Idreos, "Monkey: Optimal Navigable Key-Value Store", 2017, section 4:
// minimize the sum of weight × rate. They solve it for ideal filters: the rate is proportional to keys ÷ weight.
// Allocate uses the actual curve of the kind of filter and is exact for filters of whole bits: each bit goes where it
// saves most.
func (c Curve) Allocate(levels []LevelLoad, bits float64) []float64 {
	return c.spend(levels, func(s step) float64 { // how much of the step to take
		cost := s.keys * float64(s.to-s.from)
		taken := min(1, bits/cost)
		bits -= taken * cost
		return taken
	})
}

// AllocateFor returns the bits per key of each level with which lookups of absent keys
// waste at most mostWasted reads on average, with the fewest bits for all filters together.
// If the curve cannot reach that, all levels get the maximum of the curve.
func (c Curve) AllocateFor(levels []LevelLoad, mostWasted float64) []float64 {
	excess := c.Wasted(levels, make([]float64, len(levels))) - mostWasted
	return c.spend(levels, func(s step) float64 {
		taken := max(0, min(1, excess/s.gain))
		excess -= taken * s.gain
		return taken
	})
}

// Wasted returns the reads that a lookup wastes with the given bits per key of each level:
// the sum of weight × rate over the levels that have keys.
func (c Curve) Wasted(levels []LevelLoad, bits []float64) (reads float64) {
	for i, l := range levels {
		if l.Keys > 0 {
			reads += l.Weight * c.Rate(bits[i])
		}
	}
	return reads
}

// step is a possible increase of the bits per key of one level's filters.
type step struct {
	level    int
	from, to int // bits per key
	keys     float64
	gain     float64 // reads that it saves
}

// perBit is the number of reads that each bit of the step saves.
func (s *step) perBit() float64 { return s.gain / (s.keys * float64(s.to-s.from)) }

// spend takes the steps of all levels, those that save most per bit first, each to the extent that take returns. The
// steps of one level come in their order, because bends leaves only steps whose savings per bit fall.
func (c Curve) spend(levels []LevelLoad, take func(step) float64) []float64 {
	bits := make([]float64, len(levels))
	bends := c.bends()
	var steps []step
	for i, l := range levels {
		if !(l.Keys > 0) {
			bits[i] = float64(max(len(c)-1, 0))
			continue
		}
		for j := 1; j < len(bends); j++ {
			s := step{level: i, from: bends[j-1], to: bends[j], keys: l.Keys}
			if s.gain = l.Weight * (c[s.from] - c[s.to]); s.gain > 0 {
				steps = append(steps, s)
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		switch x, y := a.perBit(), b.perBit(); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a.level - b.level
	})
	for _, s := range steps {
		taken := max(take(s), 0)
		bits[s.level] = float64(s.from) + taken*float64(s.to-s.from)
		if taken < 1 {
			break // do not spend rounding leftovers on later steps
		}
	}
	return bits
}

// bends returns the bits per key at which the gain of a bit falls, beginning with 0: the
// lower convex hull of the curve.
func (c Curve) bends() (at []int) {
	slope := func(a, b int) float64 { return (c[b] - c[a]) / float64(b-a) }
	for b := range c {
		if math.IsNaN(c[b]) {
			break
		}
		for n := len(at); n >= 2 && slope(at[n-2], at[n-1]) >= slope(at[n-1], b); n-- {
			at = at[:n-1]
		}
		at = append(at, b)
	}
	return at
}

// CurveOf returns the curve of the filter that readers of p's tables prefer, the first of Kinds, and
// its size per key for each bit of the curve: 1 for a BloomPolicy, and the slots per key of a typical
// table for a FusePolicy. ok is false for other policies, whose bits cannot be chosen.
func CurveOf(p Policy) (c Curve, bitsPerKey float64, ok bool) {
	switch p := firstKind(p).(type) {
	case BloomPolicy:
		return p.Curve(), 1, true
	case FusePolicy:
		return p.Curve(), fuseSlotsPerKey, true
	}
	return nil, 0, false
}

// WithBitsPerKey returns p with bitsPerKey bits per key in each of its BloomPolicy filters, and with slots of
// bitsPerKey bits in each of its FusePolicy filters, or None for 0 or less. ok is false if the filter that readers
// prefer, the first of Kinds, is neither; p is then returned unchanged.
func WithBitsPerKey(p Policy, bitsPerKey int) (q Policy, ok bool) {
	kinds := Kinds(p)
	if len(kinds) == 0 || !hasBits(kinds[0]) {
		return p, false
	}
	if bitsPerKey <= 0 {
		return None, true
	}
	if b, ok := p.(BloomPolicy); ok {
		return newBloomPolicy(b.layout, bitsPerKey), true
	}
	for i, kind := range kinds {
		switch kind := kind.(type) {
		case BloomPolicy:
			kinds[i] = newBloomPolicy(kind.layout, bitsPerKey)
		case FusePolicy:
			kinds[i] = NewFusePolicy(bitsPerKey)
		}
	}
	return Several(kinds...), true
}

func hasBits(p Policy) bool {
	switch p.(type) {
	case BloomPolicy, FusePolicy:
		return true
	}
	return false
}
