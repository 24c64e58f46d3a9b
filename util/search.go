package util

// LowerBound64 returns the first i with a[i] >= x, len(a) if there is none. a
// ascends. The loop has no branch that depends on the data: the compiler makes a
// conditional move of it, and the processor has nothing to predict wrongly.
func LowerBound64(a []uint64, x uint64) int {
	base, n := 0, len(a)
	for n > 0 {
		half := n >> 1
		next := base + half + 1
		if a[base+half] < x {
			base = next
			n -= half + 1
		} else {
			n = half
		}
	}
	return base
}
