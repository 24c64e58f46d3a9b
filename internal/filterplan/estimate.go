package filterplan

import "github.com/sievedb/sievedb/filter"

// Estimate computes what filters would take and save in a store that need not exist.
type Estimate struct {
	Curve filter.Curve
	Tree  []filter.LevelLoad // the levels
	Keys  float64
}

// Estimate returns the Estimate for so many keys, whose entries take entryBytes each.
func (o *Options) Estimate(keys, entryBytes float64) *Estimate {
	return &Estimate{Curve: o.Curve(), Tree: o.Tree(keys, entryBytes), Keys: keys}
}

// Division is how the memory of filters is divided over the levels: bits a key of each, the
// same ones and the best ones.
type Division struct {
	Bytes, BitsPerKey float64 // of all filters; bits in the mean
	Uniform, Solved   []float64
}

// At divides so many bytes. What more than the most useful bits a key would take is left.
func (e *Estimate) At(bytes float64) Division {
	most := float64(len(e.Curve) - 1)
	bits := min(8*bytes/e.Keys, most) // more would gain nothing
	uniform := make([]float64, len(e.Tree))
	for i := range uniform {
		uniform[i] = bits
	}
	return Division{
		Bytes: bits * e.Keys / 8, BitsPerKey: bits,
		Uniform: uniform, Solved: e.Curve.Allocate(e.Tree, bits*e.Keys),
	}
}

// Reads counts data blocks read in the mean: by a lookup of an absent key, and by one of a
// key that is there.
type Reads struct{ Miss, Hit float64 }

// Reads returns what lookups read with so many bits a key on each level. A key is as
// likely on a level as the level has keys; in level 0 half of the other runs come first.
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
