package filter

import "math"

// FalsePositiveRate returns the probability, 0 to 1, that a bloom filter of
// the given number of bits, in which each of keys distinct keys sets k bits at
// ideally random positions, answers "perhaps" for an absent key:
// (1 - e^(-k keys/bits))^k. It is 0 without keys, and 1 if there are keys but no bits
// or no hashes.
func FalsePositiveRate(keys, bits uint64, k int) float64 {
	switch {
	case keys == 0:
		return 0
	case bits == 0 || k <= 0:
		return 1
	}
	// Expm1, because 1 - e^(-x) loses precision for small x, that is, in sparse filters.
	ones := -math.Expm1(-float64(k) * float64(keys) / float64(bits))
	return math.Pow(ones, float64(k))
}

// BloomHashes returns k, the number of bits that a key sets in LevelDB's filters with
// bitsPerKey bits per key: bitsPerKey × 0.69 rounded down, within 1..30. (0.69 is about
// ln 2, at which the false-positive rate is lowest; LevelDB rounds down to probe fewer bits.)
func BloomHashes(bitsPerKey int) int {
	if bitsPerKey >= MaxBitsPerKey { // also keeps the product from overflowing
		return maxBloomHashes
	}
	// LevelDB multiplies in floating point. Integers give the same k because the product
	// is not a whole number for any bitsPerKey below 100.
	return min(max(bitsPerKey*69/100, 1), maxBloomHashes)
}

// PredictedRate returns the expected false-positive rate, 0 to 1, of a filter that NewBloomPolicy(bitsPerKey) makes
// from the given number of distinct keys. It uses the number of bits and hashes after all rounding, and models
// LevelDB's double hashing, which is worse than an ideal bloom filter (see FalsePositiveRate). It includes the
// probability that another key has the same 32-bit hash, 1 - e^(-keys/2^32). At 10 bits per key, FalsePositiveRate is
// 0.84 %, and PredictedRate depends on the keys of a filter:
//
//	1      2      3      6      7 to 20      100 to 1,000  20,000        a million  a hundred million
//	0.20   0.44   0.73   2.2    1.1 to 1.7   0.85 to 1.0   0.84 to 1.05  1.3        3.1 %
//
// Fewer than seven keys have more bits than asked for, since a filter has at least 64. LevelDB and goleveldb
// write filters of few keys: one for the blocks that begin in each 2 KiB.
//
// It assumes ideal hashes. Its error on random keys, as measured, is 2 % of the rate, and about 5 % for rates below
// 0.002. Keys that are counters can have a far higher rate, because more of them share a hash. A call takes up to 60
// milliseconds; what is computed for filters of up to 16,384 bits is kept, also for similar numbers of keys.
func PredictedRate(keys uint64, bitsPerKey int) float64 {
	if keys == 0 {
		return 0
	}
	bytes, k := bloomShape(keys, bitsPerKey)
	return levelDBRate(keys, bytes*8, k)
}

// bloomShape returns the size of the bit array in bytes and the number of hashes of a filter for the given number of
// keys. There are fewer than 2^32 bits, because positions are remainders of 32-bit numbers. If bitsPerKey would need
// more, the filter has the maximum number of bits and the k that suits them.
func bloomShape(keys uint64, bitsPerKey int) (bytes uint64, k int) {
	const maxBits = maxBloomBytes * 8
	b := uint64(clampBitsPerKey(bitsPerKey))
	if keys > maxBits/b {
		return maxBloomBytes, BloomHashes(int(maxBits / keys))
	}
	return (max(keys*b, minBloomBits) + 7) / 8, BloomHashes(int(b))
}

func clampBitsPerKey(bitsPerKey int) int { return min(max(bitsPerKey, 1), MaxBitsPerKey) }
