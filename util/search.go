package util

import "encoding/binary"

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

// Prefix64 returns the eight bytes of key from position from on, with zeros behind
// its end, as a big-endian number: two such numbers order as the bytes do, unless
// they are equal. from is at most len(key).
func Prefix64(key []byte, from int) uint64 {
	rest := key[from:]
	if len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)
	}
	if len(key) >= 8 { // what is before from leaves at the top
		return binary.BigEndian.Uint64(key[len(key)-8:]) << (64 - 8*len(rest))
	}
	var p uint64
	for i, c := range rest {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}
