package filterplan

import (
	"math"

	"github.com/sievedb/sievedb/filter"
)

// Bits is a number of bits for the filters of new tables, as filter.WithBitsPerKey counts them. It need not be whole.
type Bits float64

// Of returns the whole number of bits for table num.
func (b Bits) Of(num uint64) int {
	whole := math.Floor(float64(b))
	// The multiples of the golden ratio, modulo 1, are spread evenly.
	if float64(num*0x9e3779b97f4a7c15) < (float64(b)-whole)*math.Pow(2, 64) {
		whole++
	}
	return int(whole)
}

// Policy returns the policy for table num: p with the next lower or the next higher number of bits, so that the mean
// over tables of successive numbers is right. The bits of p must be adjustable (filter.WithBitsPerKey).
func (b Bits) Policy(p filter.Policy, num uint64) filter.Policy {
	q, ok := filter.WithBitsPerKey(p, b.Of(num))
	if !ok {
		panic("filterplan: the bits of a validated filter policy cannot be adjusted")
	}
	return q
}

// Policies returns Policy as a function of the table's number.
func (b Bits) Policies(p filter.Policy) func(fileNum uint64) filter.Policy {
	return func(num uint64) filter.Policy { return b.Policy(p, num) }
}
