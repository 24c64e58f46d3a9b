package filter

import "math/bits"

// maxFuseKeys keeps a filter below two gigabytes, the limit of a slice on 32-bit machines,
// whatever the number of tries.
const maxFuseKeys = 1 << 29

// shapeOfFuse returns the shape of a filter of that many keys, at most maxFuseKeys, at the
// given try. Readers derive it from the filter.
//
// Both the segment size, 2^(0.6 log2 keys), and the slots per key are fitted to the
// smallest number of slots, over all segment sizes, with which nine of ten sets of random
// keys are solved at the first try, for ten to ten million keys.
func shapeOfFuse(keys int, try uint8) fuseShape {
	n := uint64(max(keys, 1))
	halves := uint64(bits.Len64(n*n)) - 1 // in half octaves: 2 log2 n, rounded down
	lg := min((3*halves+5)/10, maxFuseLg)
	spare := uint64(64) // slots in addition to one per key, in 1024ths
	if 11000/(halves+1) > 208+spare {
		spare = 11000/(halves+1) - 208
	}
	slots := n + (n*spare+1023)/1024
	slots += slots * uint64(try) / 32
	segments := max((slots+1<<lg-1)>>lg, fuseArity)
	return fuseShape{span: (segments - fuseArity + 1) << lg, lg: uint(lg), mul: fuseMultiplier(try)}
}

// PredictedRate returns the expected false-positive rate, 0 to 1, of a filter of the given
// number of distinct keys: 1/256, combined with the probability that another key has the
// same 64-bit hash. It is 1 for more keys than a filter can have.
func (FusePolicy) PredictedRate(keys uint64) float64 {
	if keys > maxFuseKeys {
		return 1
	}
	sameHash := SameHashRate(keys, 64)
	return sameHash + (1-sameHash)/256
}

// FilterSize returns the size in bytes of a filter of the given number of distinct keys.
// About one filter in ten is larger by a 32nd, and one in a hundred by two, because there
// is no solution in this size.
func (FusePolicy) FilterSize(keys uint64) uint64 {
	if keys > maxFuseKeys {
		return fuseTailBytes
	}
	return shapeOfFuse(int(keys), 0).slots() + fuseTailBytes
}
