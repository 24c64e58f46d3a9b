package filter

import "math/bits"

// maxFuseKeys keeps a filter below two gigabytes, what a slice has on machines of
// 32 bits, with room for all tries.
const maxFuseKeys = 1 << 29

// shapeOfFuse returns the shape of a filter of that many keys, at most maxFuseKeys,
// at the given try. A reader takes it from the filter.
//
// Both the size of the segments, 2^(0.6 log2 keys), and the slots a key are fitted to
// what nine of ten sets of random keys can be solved with at the first try: the least
// slots over all sizes of segments, 10 to ten million keys.
func shapeOfFuse(keys int, try uint8) fuseShape {
	n := uint64(max(keys, 1))
	halves := uint64(bits.Len64(n*n)) - 1 // of an octave: 2 log2 n, rounded down
	lg := min((3*halves+5)/10, maxFuseLg)
	spare := uint64(64) // slots beside a key's own, in 1024ths
	if 11000/(halves+1) > 208+spare {
		spare = 11000/(halves+1) - 208
	}
	slots := n + (n*spare+1023)/1024
	slots += slots * uint64(try) / 32
	segments := max((slots+1<<lg-1)>>lg, fuseArity)
	return fuseShape{span: (segments - fuseArity + 1) << lg, lg: uint(lg), mul: fuseMultiplier(try)}
}

// PredictedRate returns the false-positive rate, 0 to 1, to expect of a filter of the
// given number of distinct keys: 1/256, and the chance that another key has the same
// 64-bit hash. Of more keys than a filter can have it is 1.
func (FusePolicy) PredictedRate(keys uint64) float64 {
	if keys > maxFuseKeys {
		return 1
	}
	sameHash := SameHashRate(keys, 64)
	return sameHash + (1-sameHash)/256
}

// FilterSize returns the bytes of a filter of the given number of distinct keys. One
// filter in ten or so is a 32nd larger, one in a hundred two, because it cannot be
// made in this size.
func (FusePolicy) FilterSize(keys uint64) uint64 {
	if keys > maxFuseKeys {
		return fuseTailBytes
	}
	return shapeOfFuse(int(keys), 0).slots() + fuseTailBytes
}
