package filter

import (
	"fmt"
	"math"
)

// BloomSpec is the size of an ideal bloom filter per key.
type BloomSpec struct {
	BitsPerKey int // within 1..MaxBitsPerKey
	Hashes     int // k, the number of bits that a key sets, within 1..30
}

// Rate returns the false-positive rate, 0 to 1, of a large filter of s: (1 - e^(-k/b))^k for b bits per key.
func (s BloomSpec) Rate() float64 {
	return FalsePositiveRate(1, uint64(max(s.BitsPerKey, 0)), s.Hashes)
}

// BestHashes returns the k, within 1..30, with the lowest false-positive rate for a bloom filter of bitsPerKey bits per
// key (clamped to 1..MaxBitsPerKey); if two have the same rate, the smaller one. It is ln 2 × bitsPerKey, rounded. The
// policies of this package use slightly fewer hashes: see BloomHashes and CacheLineHashes.
func BestHashes(bitsPerKey int) int {
	best := BloomSpec{clampBitsPerKey(bitsPerKey), 1}
	for k := 2; k <= maxBloomHashes; k++ {
		if s := (BloomSpec{best.BitsPerKey, k}); s.Rate() < best.Rate() {
			best = s
		}
	}
	return best.Hashes
}

// SpecForRate returns the fewest bits per key, and then the fewest hashes, with which an ideal bloom filter has a
// false-positive rate of at most maxRate (0 to 1). If maxBitsPerKey bits per key are too few, it returns an error that
// contains the lowest possible rate. A maxBitsPerKey above MaxBitsPerKey counts as MaxBitsPerKey.
//
// SpecForRate assumes no particular hash function; BloomPolicy.ForRate does.
func SpecForRate(maxRate float64, maxBitsPerKey int) (BloomSpec, error) {
	for b := 1; b <= min(maxBitsPerKey, MaxBitsPerKey); b++ {
		s := BloomSpec{b, BestHashes(b)}
		if !(s.Rate() <= maxRate) {
			continue
		}
		for s.Hashes > 1 && (BloomSpec{b, s.Hashes - 1}).Rate() <= maxRate {
			s.Hashes--
		}
		return s, nil
	}
	if maxBitsPerKey < 1 {
		return BloomSpec{}, fmt.Errorf("filter: at most %d bits per key are allowed; a filter needs at least 1",
			maxBitsPerKey)
	}
	best := clampBitsPerKey(maxBitsPerKey)
	return BloomSpec{}, rateError(maxRate, "an ideal filter", best, BloomSpec{best, BestHashes(best)}.Rate())
}

// ForRate returns the policy of p's layout with the fewest bits per key whose filter of the given number of distinct
// keys has a predicted false-positive rate of at most maxRate (0 to 1). If MaxBitsPerKey bits are too few, it returns p
// and an error that contains the lowest possible rate. The reason is then LevelDB's 32-bit hash, which more bits do not
// improve, or too many keys for one filter.
func (p BloomPolicy) ForRate(keys uint64, maxRate float64) (BloomPolicy, error) {
	least, bits := 1.0, 1
	for b := 1; b <= MaxBitsPerKey; b++ {
		q := newBloomPolicy(p.layout, b)
		rate := q.PredictedRate(keys)
		if rate <= maxRate {
			return q, nil
		}
		if rate < least {
			least, bits = rate, b
		}
	}
	return p, rateError(maxRate, fmt.Sprintf("%s with %d keys", p.Name(), keys), bits, least)
}

func rateError(want float64, of string, bits int, rate float64) error {
	return fmt.Errorf("filter: %s cannot reach a false-positive rate of %.3g; the lowest is %.3g, at %d bits per key",
		of, want, rate, bits)
}

// MaxBitsFor returns the largest number of bits per key, up to MaxBitsPerKey, for which a filter of p's layout has
// space with that many keys; a policy with more bits makes a filter with fewer. It is 0 if there are more keys than
// bits: such a filter rules nothing out.
func (p BloomPolicy) MaxBitsFor(keys uint64) int {
	room := uint64(maxBloomBytes * 8)
	if p.layout != levelDBLayout {
		room = maxLines * lineBits
	}
	return int(min(room/max(keys, 1), MaxBitsPerKey))
}

// SameHashRate returns the probability, 0 to 1, that an absent key has the same hash as one of the given number of
// distinct keys: 1 - e^(-keys/2^hashBits). It is a lower bound for the false-positive rate of any filter with such a
// hash. LevelDB's hash has 32 bits, that of cache-line filters has 64.
func SameHashRate(keys uint64, hashBits int) float64 {
	return -math.Expm1(-math.Ldexp(float64(keys), -hashBits))
}
