package filter

import "math"

// z95 is the 97.5 % point of the normal distribution: a two-sided interval contains the true value 95 times in 100.
const z95 = 1.959964

// RateInterval returns the 95 % confidence interval, 0 to 1, of a filter's pass rate if passed of asked independent
// queries passed the filter. If asked is 0, it returns 0 and 1; if passed exceeds asked, it counts as asked.
//
// The interval is that of E. B. Wilson, "Probable Inference, the Law of Succession, and
// Statistical Inference", 1927. It holds for few queries and for rates near 0, for which
// the usual interval, rate ± 1.96 standard deviations, is empty.
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
	// For rates of 0 and 1, rounding errors aside, the bounds are 0 and 1.
	return max(min((middle-half)/scale, rate), 0), min(max((middle+half)/scale, rate), 1)
}
