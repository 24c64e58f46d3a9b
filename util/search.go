package util

import "encoding/binary"

// LowerBound64 returns the smallest i with a[i] >= x, or len(a) if there is none. a must be
// sorted in ascending order. The loop has no data-dependent branch that could be mispredicted:
// the compiler uses a conditional move.
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

// Prefix64 returns the eight bytes of key from position from on, padded with zeros, as a big-endian number. Two such
// numbers compare as the bytes do, unless they are equal. from must be at most len(key).
func Prefix64(key []byte, from int) uint64 {
	rest := key[from:]
	if len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)
	}
	if len(key) >= 8 { // the shift drops the bytes before from
		return binary.BigEndian.Uint64(key[len(key)-8:]) << (64 - 8*len(rest))
	}
	var p uint64
	for i, c := range rest {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}
