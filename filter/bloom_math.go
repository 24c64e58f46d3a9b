package filter

import (
	"math"
	"math/bits"
)

// LevelDB's double hashing is not ideal, so FalsePositiveRate is too low for its filters:
//
//	bits per key  4        6        8        10       12       16       20
//	k             2        4        5        6        8        11       13
//	formula       15.5 %   5.61 %   2.17 %   0.844 %  0.314 %  0.0459 % 0.0068 %
//	20,000        15.5 %   6.31 %   2.32 %   0.904 %  0.350 %  0.0498 % 0.0079 %
//	1,000,000     15.5 %   8.49 %   3.18 %   1.31 %   0.496 %  0.0967 % 0.0390 %
//
// The formula has its minimum at k = ln 2 × m/n, when half of the bits are ones; LevelDB's k is slightly smaller and
// saves a probe. The other rows are PredictedRate for that many keys. It varies by a tenth with the exact number of
// bits, and by more from 50,000 keys on. Two more effects raise it, and more bits do not help against them. Keys with
// the same 32-bit hash are indistinguishable: that adds n/2^32, 0.02 % at a million keys and 2.3 % at a hundred million
// (PredictedRate includes it). And the hash is weak for counters: 6 to 19 % of the absent neighbours of stored keys in
// "%016d" or "%08x" have the same hash as a stored key.
//
// The model is this, for ideal 32-bit hashes h and M = 2^32 - 1:
//
//   - Rotating right by 17 multiplies by 2^15 modulo M. Position j is therefore the
//     remainder by m of a value: (1 + j 2^15) h mod M, less the number w of times that
//     h + j delta wrapped around 2^32. If 1 + j 2^15 and M = 3·5·17·257·65537 have a
//     common divisor, the value is a multiple of that divisor less w, not an arbitrary
//     number.
//   - 1 + 2·2^15 is 65537. The third positions of all keys are among 3 × 65,535 values,
//     however large the filter. From about a hundred thousand keys on nearly all of these
//     are set, and the third position carries no information. This raises the rate at 10
//     bits per key from 0.84 to 1.2 % or more.
//   - Modulo 65537 the value of position j is (j-2) delta - w. So if one of an absent
//     key's positions is a possible third position, its others probably are too. This is
//     rare, but with many bits per key it accounts for most of the rate.
//   - The divisors 3, 5 and 17 matter if they also divide m: positions j = 1, 4, … (for
//     3), 3, 8, … (for 5) and 15 (for 17) then miss some of the residues.
//   - In small filters an absent key's own positions coincide, so that few bits are tested, and keys that
//     share one position share more of them. That adds about 1/m: all but a hundredth of the rate of
//     one key at 10 bits. How often depends on m (filters of 2^i bits have the most), so
//     for filters of up to countedBits it is counted in samples, see bloom_count.go.
//
// RocksDB's issue 4120 (Dillinger, 2018) reports the fault and its size. The explanation
// is our own; TestLevelDBRateMatchesTheScheme compares it with the scheme.
type doubleHashing struct {
	keys    float64 // less for those that set fewer than k bits
	m       uint64  // bits, below 2^32
	k       int
	divisor uint64 // of m and M: modulo this, a key's first position and its step have the same hash

	// loads[p mod len] is the expected number of keys with one of their positions, other
	// than the third, at p. It has gcd(m, 255) entries.
	loads []float64
	third float64 // how many keys have one given multiple of 65537 as their third value
	// own is how many of the keys at a position have the queried hash itself; SameHashRate counts those.
	own     float64
	inverse uint64 // of m modulo 65537
}

const (
	thirdFactor  = 65537 // the values of third positions are multiples of this
	smallFactors = 3 * 5 * 17
	hashValues   = 1 << 32
	// countedBits is the largest number of bits for which rates are counted, not computed, and keptBits that
	// for which they are kept; powers of two are counted up to that.
	countedBits = 1 << 10
	keptBits    = 1 << 14
)

// levelDBRate returns the expected false-positive rate, 0 to 1, of a filter of LevelDB's layout, with bits below 2^32
// and k of 1..30, in which each of keys distinct keys with ideal 32-bit hashes sets k bits. It takes up to 60
// milliseconds for filters of up to keptBits, the first time, and otherwise up to ten.
func levelDBRate(keys, bits uint64, k int) float64 {
	switch {
	case keys == 0:
		return 0
	case bits == 0 || k <= 0:
		return 1
	}
	if bits%thirdFactor == 0 {
		bits -= 8 // one size in 65,537 has twice the rate, which the model ignores
	}
	sameHash := SameHashRate(keys, 32)
	rate := 0.0
	switch {
	case keys > bits/2: // most of them are ones
		rate = FalsePositiveRate(keys, bits, k)
	case bits <= keptBits:
		rate = smallRates.between(keys, bits, k)
	default:
		rate = newDoubleHashing(keys, bits, k).computedRate()
	}
	return sameHash + (1-sameHash)*min(rate, 1)
}

func newDoubleHashing(keys, bits uint64, k int) *doubleHashing {
	s := &doubleHashing{
		keys: float64(keys) * (1 - float64(k-1)/2/float64(bits)), m: bits, k: k,
		divisor: gcd(bits, hashValues-1),
		loads:   make([]float64, gcd(bits, smallFactors)),
		own:     float64(keys) / hashValues,
		inverse: power(bits%thirdFactor, thirdFactor-2),
	}
	if k > 2 {
		s.third = s.keys / (thirdFactor - 2)
	}
	for p := range s.loads {
		for j := range k {
			if j != 2 {
				s.loads[p] += s.keys / float64(bits) * s.density(j, uint64(p))
			}
		}
	}
	return s
}

// density is the frequency of position j at position p, relative to the mean.
func (s *doubleHashing) density(j int, p uint64) (sum float64) {
	g := gcd(1+uint64(j)<<15, uint64(len(s.loads)))
	if g == 1 || j == 0 {
		return 1
	}
	// The value is a multiple of g less w.
	for w := range uint64(j + 1) {
		if (p+w)%g == 0 {
			sum += wraps(j, w) * float64(g)
		}
	}
	return sum
}

// wraps is the probability that h + j delta, for j above 0, wraps around 2^32 w times.
func wraps(j int, w uint64) float64 {
	if w == 0 || w == uint64(j) {
		return 0.5 / float64(j)
	}
	return 1 / float64(j)
}

func (s *doubleHashing) computedRate() float64 {
	return s.meanOfHashes() + s.ownCoincidences() + s.sharedWithKeys()
}

// taken is the probability that one of this many keys is at a position, for a query whose hash is not that of a key.
func (s *doubleHashing) taken(keys float64) float64 {
	return -math.Expm1(-max(keys-s.own, 0))
}

// meanOfHashes is the mean, over single hashes, of the probability that all positions of a hash are taken. By the
// Chinese remainder theorem a hash is r + 65537 q. r is determined by e = delta/m modulo 65537, which says which
// multiples of m lie between an absent key's values and those of third positions: all of them are near if e is near 0
// or, with a negative delta, near 1/m. The samples are evenly spread over q and over e, with more of them at those two
// centers, each with a smaller weight.
func (s *doubleHashing) meanOfHashes() float64 {
	multiples := hashValues / s.m // of m, below 2^32
	half := multiples / 2
	wide, near := uint64(1024), uint64(0)
	switch {
	case s.m > 1<<28: // hashes near the centers are so rare that equal ones outweigh them
		wide = 2048
	case s.m > 1<<19:
		wide, near = 8192, 4096
	case s.m > 1<<17:
		wide, near = 4096, 2048
	}
	width := 2*half + 1
	density := func(e uint64) float64 { // how many samples have this e
		n := float64(wide) / thirdFactor
		for _, center := range []uint64{0, s.inverse} {
			if (e+half+thirdFactor-center)%thirdFactor < width {
				n += float64(near) / float64(width)
			}
		}
		return n
	}
	var sum float64
	for i := range wide {
		e := i * thirdFactor / wide
		sum += s.chance(e, i) / density(e)
	}
	for i := range near {
		offset := i*width/near + thirdFactor - half
		for _, center := range []uint64{0, s.inverse} {
			e := (center + offset) % thirdFactor
			sum += s.chance(e, i) / density(e)
		}
	}
	return sum / thirdFactor
}

// chance is the probability for the ith of the 65,536 hashes with this e, in an order that
// is evenly spread from the beginning.
func (s *doubleHashing) chance(e, i uint64) float64 {
	delta := e * (s.m % thirdFactor) % thirdFactor
	r := (2*thirdFactor - 2*delta) % thirdFactor // position 0 is -2 delta
	q := uint64(uint32(i)*0x9e3779b9) >> 16
	h := uint32(r + thirdFactor*q) // exceeds 2^32 only for the greatest q
	d := bits.RotateLeft32(h, -bloomRotate)
	chance := 1.0
	for range s.k {
		p := uint64(h) % s.m
		load := s.loads[0]
		if len(s.loads) > 1 {
			load = s.loads[p%uint64(len(s.loads))]
		}
		chance *= s.taken(load*s.values(p) + s.thirds(p))
		h += d
	}
	return chance
}

// values is how many values have the remainder p, relative to the mean. The lower positions
// have one more, which matters if m is a large part of 2^32.
func (s *doubleHashing) values(p uint64) float64 {
	n := hashValues / s.m
	if p < hashValues%s.m {
		n++
	}
	return float64(n) * float64(s.m) / hashValues
}

// thirds is the expected number of keys whose third position is at p: those whose third value
// is p plus a multiple of m.
func (s *doubleHashing) thirds(p uint64) (keys float64) {
	// p + t m + w is a multiple of 65537.
	t := (thirdFactor - p%thirdFactor) * s.inverse % thirdFactor
	for w := range 3 {
		for value := p + t*s.m; value < hashValues; value += thirdFactor * s.m {
			keys += s.third * wrapsOfThird(w, float64(value)/hashValues)
		}
		if t += thirdFactor - s.inverse; t >= thirdFactor {
			t -= thirdFactor
		}
	}
	return keys
}

// wrapsOfThird is the probability that h + 2 delta wrapped around 2^32 w times, if the
// remaining value is this part of 2^32.
func wrapsOfThird(w int, part float64) float64 {
	switch w {
	case 0:
		return part / 2
	case 1:
		return 0.5
	}
	return (1 - part) / 2
}

// ownCoincidences is the part of the rate that is due to absent keys whose own positions coincide, so that
// fewer than k bits are tested.
func (s *doubleHashing) ownCoincidences() (rate float64) {
	if s.m > 1<<20 {
		return 0 // equal hashes are a hundred times as frequent
	}
	steps := coincidingSteps(s.m, s.k)
	samples := 4096/uint64(len(steps)+1) + 8
	evenThirds := s.third * (thirdFactor - 2) / float64(s.m)
	o := offsets{m: s.m, k: s.k}
	for _, step := range steps {
		first := s.firstOf(step)
		for i := range samples {
			if o.set(step, evenly(i+step*0x9e3779b97f4a7c15>>32)); len(o.at) == s.k {
				continue
			}
			chance := 1.0
			for _, at := range o.at {
				chance *= s.taken(s.loads[(first+at)%s.m%uint64(len(s.loads))] + evenThirds)
			}
			rate += chance
		}
	}
	return rate / float64(samples) / float64(s.m)
}

// sharedPositions is the part of the rate due to keys that share several positions with an absent one, times m squared
// and divided by keys, in a filter nearly half full: same is due to those with the same first position and step, other
// to the rest. From k = 13 on they fall as 1/k. They are means of filters of a thousand bits and more.
var sharedPositions = [...]struct{ same, other float64 }{
	2: {0.55, 0.55}, 3: {0.49, 1.14}, 4: {0.39, 1.35}, 5: {0.33, 1.55},
	6: {0.26, 1.43}, 7: {0.19, 1.20}, 8: {0.15, 1.6}, 9: {0.11, 1.4},
	10: {0.09, 1.2}, 11: {0.07, 1.2}, 12: {0.05, 1.0}, 13: {0.04, 0.95},
}

// sharedWithKeys is the part of the rate due to keys that share several positions with an absent one.
func (s *doubleHashing) sharedWithKeys() float64 {
	if s.k < 2 {
		return 0
	}
	c := sharedPositions[min(s.k, len(sharedPositions)-1)]
	m := float64(s.m)
	fill := -math.Expm1(-float64(s.k) * s.keys / m)
	// Two hashes that are equal modulo a divisor of m and M have the same step, too. Some of them wrap differently.
	pairs := s.keys / m / m * (c.same*(1+(0.7+float64(s.k)/60)*float64(len(s.loads)-1)) + c.other)
	return pairs * math.Pow(fill/0.48, 3) * min(1, float64(len(sharedPositions)-1)/float64(s.k))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// power returns b to the power of n modulo thirdFactor, a prime.
func power(b, n uint64) uint64 {
	p := uint64(1)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			p = p * b % thirdFactor
		}
		b = b * b % thirdFactor
	}
	return p
}
