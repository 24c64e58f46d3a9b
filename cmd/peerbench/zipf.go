package main

import (
	"math"
	"math/rand/v2"
)

// zipfian draws numbers below n, 0 the most often, as YCSB does: with the
// method of Gray and others, Quickly Generating Billion-Record Synthetic
// Databases, SIGMOD 1994, section 3.2.
type zipfian struct {
	n, zeta, alpha, eta, second float64
}

// theta is YCSB's skew.
const theta = 0.99

func newZipfian(n int) *zipfian {
	z := &zipfian{n: float64(n), alpha: 1 / (1 - theta)}
	for i := range n {
		z.zeta += math.Pow(float64(i+1), -theta)
	}
	z.second = 1 + math.Pow(0.5, theta)
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - z.second/z.zeta)
	return z
}

func (z *zipfian) draw(rng *rand.Rand) uint64 {
	u := rng.Float64()
	switch uz := u * z.zeta; {
	case uz < 1:
		return 0
	case uz < z.second:
		return 1
	}
	return min(uint64(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), uint64(z.n)-1)
}
