package filter

import "math"

// cacheLineHashes[b] is k for b bits a key: the least within 3 % of the lowest
// rate that CacheLineFalsePositiveRate gives for a million keys. More than the
// last number's bits a key take the last k.
var cacheLineHashes = [...]uint8{
	0, 1, 1, 2, 3, 3, 4, 4, 5, 6,
	6, 7, 7, 8, 8, 8, 9, 9, 10, 10,
	10, 11, 11, 11, 12, 12, 12, 13, 13, 13,
	13, 14, 14, 14, 14, 15, 15, 15, 15, 15,
	16,
}

// CacheLineHashes returns k, the number of bits that a key sets in a filter of
// NewCacheLineBloomPolicy(bitsPerKey). Above ten bits a key it is nearer to half
// of them than to BloomHashes: a line that happens to be crowded suffers from
// many bits a key more than the others gain.
func CacheLineHashes(bitsPerKey int) int {
	return int(cacheLineHashes[min(clampBitsPerKey(bitsPerKey), len(cacheLineHashes)-1)])
}

// cacheLineShape returns the lines and hashes of a filter for the given number
// of keys: whole lines, one at least.
func cacheLineShape(keys uint64, bitsPerKey int) (lines uint64, k int) {
	b := uint64(clampBitsPerKey(bitsPerKey))
	if keys > maxLines*lineBits/b {
		return maxLines, CacheLineHashes(int(maxLines * lineBits / keys))
	}
	return max((keys*b+lineBits-1)/lineBits, 1), CacheLineHashes(int(b))
}

// CacheLineFalsePositiveRate returns the probability, 0 to 1, that a cache-line
// filter of the given number of 512-bit lines, in which each of keys distinct
// keys set k bits of one line at ideally random places, says "perhaps" to a key
// that is not in it. It is 0 without keys, and 1 with keys and no lines or no
// hashes.
//
// It is the mean of the rates of single lines over how many keys they get, which
// differs from line to line (a binomial distribution; Putze, Sanders and Singler,
// "Cache-, Hash- and Space-Efficient Bloom Filters", 2007, section 3).
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
		return 1 // no bit stays clear
	}
	// Weights relative to the likeliest load, outwards until they stop counting.
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
	// Where the machine adds and multiplies in one step, as arm64 and s390x do, sum
	// is rounded otherwise than total and may come out greater.
	return min(sum/total, 1)
}

// crowdedLineRate is the rate of one line in which keys keys set k bits each.
func crowdedLineRate(keys float64, k int) float64 {
	const m = lineBits
	set := float64(k) * keys // bits set, the same ones again included
	clear1 := math.Pow(1-1.0/m, set)
	clear2 := math.Pow(1-2.0/m, set) // two given bits are both clear
	ones := 1 - clear1
	if ones <= 0 {
		return 0
	}
	// The share of ones varies, and the mean of a power is more than the power of
	// the mean: the second term of its series, 1 % of the rate at ten bits a key.
	variance := (clear1*(1-clear1) + (m-1)*(clear2-clear1*clear1)) / m
	more := float64(k*(k-1)) / 2 * max(variance, 0) / (ones * ones)
	return min(math.Pow(ones, float64(k))*(1+more), 1)
}

// PredictedRate returns the false-positive rate, 0 to 1, to expect of a filter
// that p makes from the given number of distinct keys, all rounding counted: for
// LevelDB's layout what the function PredictedRate returns, for cache lines
// CacheLineFalsePositiveRate together with the chance that another key has the
// same 64-bit hash, 1 - e^(-keys/2^64). Of a policy that makes both it is that of
// cache lines, which are asked.
//
// Measured rates of cache lines agree with it to the statistical error, for keys
// of every shape.
func (p BloomPolicy) PredictedRate(keys uint64) float64 {
	if p.layout == levelDBLayout {
		return PredictedRate(keys, p.BitsPerKey())
	}
	lines, k := cacheLineShape(keys, p.BitsPerKey())
	sameHash := SameHashRate(keys, 64)
	return sameHash + (1-sameHash)*CacheLineFalsePositiveRate(keys, lines, k)
}

// FilterBytes returns how many bytes p makes of a filter of the given number of distinct
// keys, one at least; of a policy that makes both, that of cache lines.
func (p BloomPolicy) FilterBytes(keys uint64) uint64 {
	if p.layout == levelDBLayout {
		bytes, _ := bloomShape(keys, p.BitsPerKey())
		return bytes + 1
	}
	lines, _ := cacheLineShape(keys, p.BitsPerKey())
	return lines*lineBytes + lineTailBytes
}
