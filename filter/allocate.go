package filter

import (
	"math"
	"slices"
)

// A Curve is the false-positive rate, 0 to 1, of a kind of filter by its bits a key: of
// 0 bits, which is 1, of 1, and so on. More bits than it has entries for gain nothing.
type Curve []float64

// Beyond these bits a key a filter in one level saves less than they could in another,
// or nothing: LevelDB's for its 32-bit hash, cache lines for crowded ones.
const mostCacheLineBits = 20

// Curve returns the rates predicted for p's filters of some ten thousand keys, as
// tables have them, from 0 to 16 bits a key, or 20 of cache lines. The slice is the
// caller's.
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
// and so on below 50,000: a single one goes up and down with its exact number of bits.
var levelDBCurve = Curve{
	1, 0.6321, 0.3934, 0.2442, 0.1607, 0.1026, 0.06253, 0.04105, 0.02653,
	0.01527, 0.009667, 0.006019, 0.003616, 0.002389, 0.001415, 0.0008425, 0.0005663,
}

// Rate returns the rate at bits a key, which need not be a whole number: that of some
// filters with the next lower and some with the next higher one.
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

// LevelLoad is a level of an LSM tree as the allocation of filter bits sees it.
type LevelLoad struct {
	// Keys is how many keys the filters of the level hold together: what a bit a key
	// costs.
	Keys float64
	// Weight is how many reads a lookup wastes there if no filter rules anything out:
	// the sorted runs of the level (one, or the number of files of level 0) times the
	// chance that a lookup gets there times what a read costs there. 1 for a level whose
	// tables do not overlap, for lookups of absent keys.
	Weight float64
}

// Allocate returns the bits a key of each level with which lookups waste the fewest
// reads, if the filters of all levels together have that many bits: few for the last
// level, whose keys are most, and none rather than where they help little. They are not
// whole numbers: where a level gets 9.4, four of ten of its filters should have 10, and
// the others 9. A level without keys gets all that the curve has.
//
// It solves what Dayan, Athanassoulis and Idreos pose in "Monkey: Optimal Navigable
// Key-Value Store", 2017, section 4: minimise the sum of weight × rate. They give the
// answer for ideal filters, a rate in proportion to keys ÷ weight; this one takes
// the kind's own curve, and is exact for filters of whole bits: each bit goes where it
// saves most.
func (c Curve) Allocate(levels []LevelLoad, bits float64) []float64 {
	return c.spend(levels, func(s step) float64 { // how much of the step to take
		cost := s.keys * float64(s.to-s.from)
		taken := min(1, bits/cost)
		bits -= taken * cost
		return taken
	})
}

// AllocateFor returns the bits a key of each level with which lookups of absent keys
// waste mostWasted reads at most, in the mean, and the filters have the fewest bits that
// do. Where the curve cannot reach it, all levels get all that it has.
func (c Curve) AllocateFor(levels []LevelLoad, mostWasted float64) []float64 {
	excess := c.Wasted(levels, make([]float64, len(levels))) - mostWasted
	return c.spend(levels, func(s step) float64 {
		taken := max(0, min(1, excess/s.gain))
		excess -= taken * s.gain
		return taken
	})
}

// Wasted returns the reads that a lookup wastes with so many bits a key on each level:
// the sum of weight × rate over the levels that have keys.
func (c Curve) Wasted(levels []LevelLoad, bits []float64) (reads float64) {
	for i, l := range levels {
		if l.Keys > 0 {
			reads += l.Weight * c.Rate(bits[i])
		}
	}
	return reads
}

// step is a choice: some bits a key more for the filters of one level.
type step struct {
	level    int
	from, to int // bits a key
	keys     float64
	gain     float64 // reads that it saves
}

// perBit is what each bit of the step saves.
func (s *step) perBit() float64 { return s.gain / (s.keys * float64(s.to-s.from)) }

// spend takes the steps of all levels in the order of what a bit saves, each as far as
// take says. Those of one level come in their order, since bends leaves out what a
// filter of more bits does better.
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
			break // what rounding left over is not for the steps behind this one
		}
	}
	return bits
}

// bends returns the bits a key between which the gain of a bit falls, 0 first: the
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

// WithBitsPerKey returns p with so many bits a key in each of its filters of
// BloomPolicy, None for 0 or less. It is false for policies whose filters that
// readers ask, the first of Kinds, are of another kind.
func WithBitsPerKey(p Policy, bitsPerKey int) (Policy, bool) {
	kinds := Kinds(p)
	if len(kinds) == 0 {
		return p, false
	}
	if _, ok := kinds[0].(BloomPolicy); !ok {
		return p, false
	}
	if bitsPerKey <= 0 {
		return None, true
	}
	if b, ok := p.(BloomPolicy); ok {
		return newBloomPolicy(b.layout, bitsPerKey), true
	}
	for i, kind := range kinds {
		if b, ok := kind.(BloomPolicy); ok {
			kinds[i] = newBloomPolicy(b.layout, bitsPerKey)
		}
	}
	return Several(kinds...), true
}
