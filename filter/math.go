package filter

import "math"

// FalsePositiveRate returns the probability, 0 to 1, that a bloom filter of
// the given number of bits, in which each of keys distinct keys set k bits at
// ideally random places, says "perhaps" to a key that is not in it:
// (1 - e^(-k keys/bits))^k. It is 0 without keys, and 1 with keys and no bits
// or no hashes.
func FalsePositiveRate(keys, bits uint64, k int) float64 {
	switch {
	case keys == 0:
		return 0
	case bits == 0 || k <= 0:
		return 1
	}
	// Expm1, because 1 - e^(-x) loses its digits where the filter is roomy.
	ones := -math.Expm1(-float64(k) * float64(keys) / float64(bits))
	return math.Pow(ones, float64(k))
}

// BloomHashes returns k, the number of bits that a key sets in a filter of
// BloomPolicy: bitsPerKey × 0.69 rounded down, within 1..30. (0.69 is about
// ln 2, where the rate is lowest; LevelDB rounds down to probe a little less.)
func BloomHashes(bitsPerKey int) int {
	if bitsPerKey >= MaxBitsPerKey { // also keeps the product from overflowing
		return maxBloomHashes
	}
	// LevelDB multiplies in floating point. The integers give the same k because
	// the product is a whole number at no bitsPerKey below 100.
	return min(max(bitsPerKey*69/100, 1), maxBloomHashes)
}

// PredictedRate returns the false-positive rate, 0 to 1, to expect of a filter
// that NewBloomPolicy(bitsPerKey) makes from the given number of distinct keys, for
// the bits and hashes that it gets after all rounding: that of LevelDB's double
// hashing, which is no ideal bloom filter (FalsePositiveRate is that one's), together
// with the chance that another key has the very same 32-bit hash, 1 - e^(-keys/2^32).
// At ten bits a key it is 0.84 % by the formula, and here mostly 0.86 to 0.95 % up to
// 20,000 keys a filter, 1.0 to 1.5 % from 50,000 on, by the number of bits.
//
// It takes the hashes for ideal. Measured on random keys it is off by 1 % of itself,
// and by some 5 % where it is less than one in a thousand; keys that are counters can be
// far worse, because they have the same hashes more often (see the package comment).
// It takes microseconds for small filters, milliseconds for those of a million keys.
func PredictedRate(keys uint64, bitsPerKey int) float64 {
	if keys == 0 {
		return 0
	}
	bytes, k := bloomShape(keys, bitsPerKey)
	return levelDBRate(keys, bytes*8, k)
}

// bloomShape returns the size of the bit array, in bytes, and the number of
// hashes of a filter for the given number of keys. The bits stay below 2^32,
// since positions are remainders of 32-bit numbers: where bitsPerKey would pass
// that, the filter takes all the bits there are and the k that suits them.
func bloomShape(keys uint64, bitsPerKey int) (bytes uint64, k int) {
	const maxBits = maxBloomBytes * 8
	b := uint64(clampBitsPerKey(bitsPerKey))
	if keys > maxBits/b {
		return maxBloomBytes, BloomHashes(int(maxBits / keys))
	}
	return (max(keys*b, minBloomBits) + 7) / 8, BloomHashes(int(b))
}

func clampBitsPerKey(bitsPerKey int) int { return min(max(bitsPerKey, 1), MaxBitsPerKey) }
