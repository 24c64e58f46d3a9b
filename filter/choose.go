package filter

import (
	"fmt"
	"math"
)

// BloomSpec is what an ideal bloom filter spends on each key.
type BloomSpec struct {
	BitsPerKey int // within 1..MaxBitsPerKey
	Hashes     int // k, the bits that a key sets, within 1..30
}

// Rate returns the false-positive rate, 0 to 1, of a large filter of s:
// (1 - e^(-k/b))^k for b bits a key.
func (s BloomSpec) Rate() float64 {
	return FalsePositiveRate(1, uint64(max(s.BitsPerKey, 0)), s.Hashes)
}

// BestHashes returns the k, within 1..30, at which a bloom filter of bitsPerKey
// bits a key (within 1..MaxBitsPerKey, else the nearer of them) errs least; of two
// that err the same, the less. It is what ln 2 × bitsPerKey is rounded to.
// BloomHashes and CacheLineHashes are what our policies take: a little less.
func BestHashes(bitsPerKey int) int {
	best := BloomSpec{clampBitsPerKey(bitsPerKey), 1}
	for k := 2; k <= maxBloomHashes; k++ {
		if s := (BloomSpec{best.BitsPerKey, k}); s.Rate() < best.Rate() {
			best = s
		}
	}
	return best.Hashes
}

// SpecForRate returns the least bits a key, and then the fewest hashes, with which
// an ideal bloom filter errs in maxRate (0 to 1) of the absent keys at most. The
// error says that even maxBitsPerKey bits a key cannot do it, and what they can.
// Above MaxBitsPerKey, maxBitsPerKey counts as that.
//
// It has no hash of its own in mind: BloomPolicy.ForRate does.
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
		return BloomSpec{}, fmt.Errorf("filter: at most %d bits a key were allowed; a filter takes at least 1", maxBitsPerKey)
	}
	best := clampBitsPerKey(maxBitsPerKey)
	return BloomSpec{}, rateError(maxRate, "an ideal filter", best, BloomSpec{best, BestHashes(best)}.Rate())
}

// ForRate returns the policy of p's layout that spends the least bits a key and
// whose filter of the given number of distinct keys is predicted to err in maxRate
// (0 to 1) of the absent keys at most. The error says that MaxBitsPerKey bits
// cannot do it, and what can be had: LevelDB's hash of 32 bits, which no bits
// make up for, or too many keys for one filter.
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
	return fmt.Errorf("filter: %s cannot have a false-positive rate of %.3g; its least is %.3g, with %d bits a key", of, want, rate, bits)
}

// MaxBitsFor returns the most bits a key, up to MaxBitsPerKey, for which a filter
// of p's layout has room with that many keys; p with more makes a filter of fewer.
// It is 0 where there are more keys than bits, whose filter rules nothing out.
func (p BloomPolicy) MaxBitsFor(keys uint64) int {
	room := uint64(maxBloomBytes * 8)
	if p.layout != levelDBLayout {
		room = maxLines * lineBits
	}
	return int(min(room/max(keys, 1), MaxBitsPerKey))
}

// SameHashRate returns the probability, 0 to 1, that an absent key has the very
// hash of one of the given number of distinct keys: 1 - e^(-keys/2^hashBits), the
// least rate of any filter that asks by such a hash. LevelDB's has 32 bits, that of
// cache lines 64.
func SameHashRate(keys uint64, hashBits int) float64 {
	return -math.Expm1(-math.Ldexp(float64(keys), -hashBits))
}
