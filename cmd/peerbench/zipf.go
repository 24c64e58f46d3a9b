package main

import (
	"math"
	"math/rand/v2"
)

// zipfian draws numbers below n, 0 most often. Like YCSB, it uses the method of Gray and others,
// Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994, section 3.2.
type zipfian struct {
	n, zeta, alpha, eta, second float64
}

// theta is YCSB's skew.
const theta = 0.99

func newZipfian(n int) *zipfian {
	z := &zipfian{n: float64(n), zeta: zeta(n), alpha: 1 / (1 - theta)}
	z.second = 1 + math.Pow(0.5, theta)
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - z.second/z.zeta)
	return z
}

// zeta returns the sum of i^-theta for i from 1 to n. After the first terms it uses the integral with two corrections
// (Euler and Maclaurin). That is more exact than adding, and tens of millions of powers would take seconds.
func zeta(n int) float64 {
	const added = 10_000
	sum := 0.0
	for i := range min(n, added) {
		sum += math.Pow(float64(i+1), -theta)
	}
	if n <= added {
		return sum
	}
	between := func(f func(x float64) float64) float64 { return f(float64(n)) - f(added) }
	return sum +
		between(func(x float64) float64 { return math.Pow(x, 1-theta) / (1 - theta) }) +
		between(func(x float64) float64 { return math.Pow(x, -theta) / 2 }) -
		between(func(x float64) float64 { return math.Pow(x, -theta-1) * theta / 12 })
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
