package filterplan

import (
	"math"

	"github.com/sievedb/sievedb/filter"
)

// Bits are the bits a key of new tables' filters, not whole.
type Bits float64

// Of returns the bits of table num.
func (b Bits) Of(num uint64) int {
	whole := math.Floor(float64(b))
	// The multiples of the golden ratio, modulo 1, are spread evenly.
	if float64(num*0x9e3779b97f4a7c15) < (float64(b)-whole)*math.Pow(2, 64) {
		whole++
	}
	return int(whole)
}

// Policy returns the policy of table num: p with the next lower or the next higher
// number of bits, so that among tables of successive numbers the mean is right. p is a
// policy whose bits can be chosen (filter.WithBitsPerKey).
func (b Bits) Policy(p filter.Policy, num uint64) filter.Policy {
	q, ok := filter.WithBitsPerKey(p, b.Of(num))
	if !ok {
		panic("filterplan: a filter policy without bits passed validation")
	}
	return q
}

// Policies returns Policy for tables whose number is not known yet.
func (b Bits) Policies(p filter.Policy) func(fileNum uint64) filter.Policy {
	return func(num uint64) filter.Policy { return b.Policy(p, num) }
}
