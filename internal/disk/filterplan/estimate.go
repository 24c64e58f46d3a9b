package filterplan

import "github.com/sievedb/sievedb/filter"

// Estimate computes the size and benefit of filters in a store that need not exist.
type Estimate struct {
	Curve  filter.Curve
	PerBit float64            // bits per key that a bit of the curve uses
	Tree   []filter.LevelLoad // the levels
	Keys   float64
}

// Estimate returns the Estimate for that many keys, whose entries have entryBytes each.
func (o *Options) Estimate(keys, entryBytes float64) *Estimate {
	curve, perBit := o.Curve()
	return &Estimate{Curve: curve, PerBit: perBit, Tree: o.Tree(keys, entryBytes), Keys: keys}
}

// Division is a division of filter memory among the levels: the bits of the curve of each level, if
// uniform and if optimal.
type Division struct {
	Bytes, BitsPerKey float64 // of all filters; the mean of all keys
	Uniform, Solved   []float64
}

// At divides that many bytes. It leaves bytes beyond the largest useful number of bits unused.
func (e *Estimate) At(bytes float64) Division {
	most := float64(len(e.Curve) - 1)
	bits := min(8*bytes/e.Keys/e.PerBit, most) // more would gain nothing
	uniform := make([]float64, len(e.Tree))
	for i := range uniform {
		uniform[i] = bits
	}
	return Division{
		Bytes: bits * e.PerBit * e.Keys / 8, BitsPerKey: bits * e.PerBit,
		Uniform: uniform, Solved: e.Curve.Allocate(e.Tree, bits*e.Keys),
	}
}

// Reads is the mean number of data blocks read by a lookup of an absent key, and by a lookup of a present key.
type Reads struct{ Miss, Hit float64 }

// Reads returns the reads of lookups with the given bits of the curve of each level. The probability that a key is on a
// level is proportional to the level's keys; in level 0, half of the other runs are consulted first.
func (e *Estimate) Reads(bits []float64) (r Reads) {
	for i, l := range e.Tree {
		if l.Keys <= 0 {
			continue
		}
		rate := e.Curve.Rate(bits[i])
		here := 1 + r.Miss + (l.Weight-1)/2*rate
		r.Hit += l.Keys / e.Keys * here
		r.Miss += l.Weight * rate
	}
	return r
}
