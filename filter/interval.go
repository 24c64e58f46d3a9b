package filter

import "math"

// z95 is the normal distribution's 97.5 % point: intervals of two sides hold the
// truth 95 times in 100.
const z95 = 1.959964

// RateInterval returns the bounds, 0 to 1, between which the rate lies with which
// passed of asked independent questions passed a filter, in 95 of 100 such samples.
// Without questions that is all from 0 to 1; passed above asked counts as asked.
//
// It is the interval of E. B. Wilson, "Probable Inference, the Law of Succession, and
// Statistical Inference", 1927, which holds for few questions and for rates near 0,
// where the usual one, rate ± 1.96 standard deviations, is empty.
func RateInterval(passed, asked uint64) (low, high float64) {
	if asked == 0 {
		return 0, 1
	}
	n := float64(asked)
	rate := float64(min(passed, asked)) / n
	const zz = z95 * z95
	middle := rate + zz/(2*n)
	half := z95 * math.Sqrt(rate*(1-rate)/n+zz/(4*n*n))
	scale := 1 + zz/n
	// The bounds are 0 and 1 for rates of 0 and 1, but for rounding.
	return max(min((middle-half)/scale, rate), 0), min(max((middle+half)/scale, rate), 1)
}
