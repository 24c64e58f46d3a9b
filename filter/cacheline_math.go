package filter

import "math"

// cacheLineHashes[b] is k for b bits per key: the smallest k within 3 % of the lowest rate that
// CacheLineFalsePositiveRate gives for a million keys. The last entry is also the k for more bits per key.
var cacheLineHashes = [...]uint8{
	0, 1, 1, 2, 3, 3, 4, 4, 5, 6,
	6, 7, 7, 8, 8, 8, 9, 9, 10, 10,
	10, 11, 11, 11, 12, 12, 12, 13, 13, 13,
	13, 14, 14, 14, 14, 15, 15, 15, 15, 15,
	16,
}

// CacheLineHashes returns k, the number of bits that a key sets in a filter of NewCacheLineBloomPolicy(bitsPerKey).
// Above 10 bits per key, k is nearer to half of bitsPerKey than to BloomHashes: setting many bits per key harms crowded
// lines more than it helps the others.
func CacheLineHashes(bitsPerKey int) int {
	return int(cacheLineHashes[min(clampBitsPerKey(bitsPerKey), len(cacheLineHashes)-1)])
}

// cacheLineShape returns the lines and hashes of a filter for the given number of keys:
// whole lines, at least one.
func cacheLineShape(keys uint64, bitsPerKey int) (lines uint64, k int) {
	b := uint64(clampBitsPerKey(bitsPerKey))
	if keys > maxLines*lineBits/b {
		return maxLines, CacheLineHashes(int(maxLines * lineBits / keys))
	}
	return max((keys*b+lineBits-1)/lineBits, 1), CacheLineHashes(int(b))
}

// CacheLineFalsePositiveRate returns the probability, 0 to 1, that a cache-line filter of the given number of 512-bit
// lines answers "perhaps" for an absent key, if each of keys distinct keys sets k bits of one line at ideally random
// positions. It is 0 without keys, and 1 if there are keys but no lines or no hashes.
//
// It is the mean rate of a line, weighted by the binomial distribution of the number of keys per line (Putze, Sanders
// and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007, section 3).
func CacheLineFalsePositiveRate(keys, lines uint64, k int) float64 {
	switch {
	case keys == 0:
		return 0
	case lines == 0 || k <= 0:
		return 1
	case lines == 1:
		return crowdedLineRate(float64(keys), k)
	}
	n, odds := float64(keys), 1/(float64(lines)-1)
	mode := math.Floor(n / float64(lines))
	if mode*float64(k) > 100*lineBits {
		return 1 // all bits are set
	}
	// The weights are relative to the likeliest load; the loops stop when they are negligible.
	const least = 1e-15
	var sum, total float64
	for j, w := mode, 1.0; j <= n && w > least; j++ {
		sum, total = sum+w*crowdedLineRate(j, k), total+w
		w *= (n - j) / (j + 1) * odds
	}
	for j, w := mode, 1.0; j > 0; {
		w *= j / ((n - j + 1) * odds)
		if j--; w <= least {
			break
		}
		sum, total = sum+w*crowdedLineRate(j, k), total+w
	}
	// On machines with fused multiply-add, such as arm64 and s390x, sum is rounded
	// differently from total and may be greater.
	return min(sum/total, 1)
}

// crowdedLineRate is the rate of one line in which each of keys keys sets k bits.
func crowdedLineRate(keys float64, k int) float64 {
	const m = lineBits
	set := float64(k) * keys // bits set, counting repetitions
	clear1 := math.Pow(1-1.0/m, set)
	clear2 := math.Pow(1-2.0/m, set) // two given bits are both clear
	ones := 1 - clear1
	if ones <= 0 {
		return 0
	}
	// The share of ones varies, and the mean of a power is greater than the power of the
	// mean. This is the second term of its series, 1 % of the rate at 10 bits per key.
	variance := (clear1*(1-clear1) + (m-1)*(clear2-clear1*clear1)) / m
	more := float64(k*(k-1)) / 2 * max(variance, 0) / (ones * ones)
	return min(math.Pow(ones, float64(k))*(1+more), 1)
}

// PredictedRate returns the expected false-positive rate, 0 to 1, of a filter that p makes from the given number of
// distinct keys, after all rounding. For LevelDB's layout it is the result of the function PredictedRate. For cache
// lines it is CacheLineFalsePositiveRate combined with the probability that another key has the same 64-bit hash, 1 -
// e^(-keys/2^64). For a policy that makes both it is the rate of cache lines, because this package queries those.
//
// Measured rates of cache-line filters agree with it within the statistical error, for keys of every shape.
func (p BloomPolicy) PredictedRate(keys uint64) float64 {
	if p.layout == levelDBLayout {
		return PredictedRate(keys, p.BitsPerKey())
	}
	lines, k := cacheLineShape(keys, p.BitsPerKey())
	sameHash := SameHashRate(keys, 64)
	return sameHash + (1-sameHash)*CacheLineFalsePositiveRate(keys, lines, k)
}

// FilterBytes returns the size in bytes of p's filter of the given number of distinct keys,
// at least one. For a policy that makes both filters it is that of the cache-line filter.
func (p BloomPolicy) FilterBytes(keys uint64) uint64 {
	if p.layout == levelDBLayout {
		bytes, _ := bloomShape(keys, p.BitsPerKey())
		return bytes + 1
	}
	lines, _ := cacheLineShape(keys, p.BitsPerKey())
	return lines*lineBytes + lineTailBytes
}
