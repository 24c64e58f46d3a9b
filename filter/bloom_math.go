package filter

import (
	"math"
	"math/bits"
)

// How often a filter of LevelDB's layout errs is not what FalsePositiveRate says, because
// its double hashing puts a key's k places where other keys' places are. For ideal 32-bit
// hashes h, with M = 2^32 - 1, this is how:
//
//   - A rotation by 17 to the right is a multiplication by 2^15 modulo M, so the value of
//     which place j is the remainder by m is (1 + j 2^15) h mod M less the number w of
//     times that h + j delta passed 2^32. Where 1 + j 2^15 has a divisor in common with
//     M = 3·5·17·257·65537, the value is a multiple of it less w: not every number.
//   - 1 + 2·2^15 is 65537. The third places of all keys are among 3 × 65,535 values, and
//     from a hundred thousand keys on nearly each of these is taken: the third place
//     tells nothing. This raises the rate at ten bits from 0.84 to 1.2 % or more.
//   - Modulo 65537 the value of place j is (j-2) delta - w. So if one of an absent key's
//     places is one that third places can take, its others are likely to be, too. That
//     is rare and, where there are many bits a key, most of the rate.
//   - The divisors 3, 5 and 17 matter where they divide m as well: the places j = 1, 4, …
//     (of 3), 3, 8, … (of 5) and 15 (of 17) then leave out part of the residues.
//   - In small filters, whoever shares a place with another key shares more of them, and
//     an absent key's own places coincide: by about 1/m, see crowding.
//
// RocksDB's issue 4120 (Dillinger, 2018) tells the fault and its size; the reasons were
// worked out here, and TestLevelDBRatesAreThoseOfTheScheme holds them against the scheme.
type doubleHashing struct {
	keys float64
	m    uint64 // bits, below 2^32
	k    int

	// loads[p mod len] is how many keys are expected to have one of their places but the
	// third at p. There are gcd(m, 255) of them.
	loads []float64
	third float64 // how many keys have one given multiple of 65537 for their third value
	// own is how many of the keys at a place have the very hash that is asked for, which
	// SameHashRate counts.
	own     float64
	inverse uint64 // of m modulo 65537
}

const (
	thirdFactor  = 65537 // what the values of third places are multiples of
	smallFactors = 3 * 5 * 17
	hashValues   = 1 << 32
	// evenBits is how many bits a filter has at most for its third places to be taken as
	// evenly spread: each of its bits is eight multiples of thirdFactor or more.
	evenBits = 1 << 13
)

// levelDBRate returns the false-positive rate, 0 to 1, to expect of a filter of LevelDB's
// layout, with bits below 2^32 and k of 1..30, in which each of keys distinct keys with ideal 32-bit
// hashes set k bits. It takes a microsecond or two for small filters, and up to four
// milliseconds for those of a million keys.
func levelDBRate(keys, bits uint64, k int) float64 {
	switch {
	case keys == 0:
		return 0
	case bits == 0 || k <= 0:
		return 1
	}
	if bits%thirdFactor == 0 {
		bits -= 8 // this size, one in 65,537, errs twice as often, which nothing here tells
	}
	s := newDoubleHashing(keys, bits, k)
	var rate float64
	if k < 3 || bits < evenBits {
		rate = s.productOfPlaces()
	} else {
		rate = s.meanOfHashes()
	}
	sameHash := SameHashRate(keys, 32)
	return sameHash + (1-sameHash)*min(rate+s.crowding(), 1)
}

func newDoubleHashing(keys, bits uint64, k int) *doubleHashing {
	s := &doubleHashing{
		keys: float64(keys), m: bits, k: k,
		loads:   make([]float64, gcd(bits, smallFactors)),
		third:   float64(keys) / (thirdFactor - 2),
		own:     float64(keys) / hashValues,
		inverse: power(bits%thirdFactor, thirdFactor-2),
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

// density is how often place j is at a position, relative to the mean.
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

// wraps is the chance that h + j delta, for j above 0, passes 2^32 w times.
func wraps(j int, w uint64) float64 {
	if w == 0 || w == uint64(j) {
		return 0.5 / float64(j)
	}
	return 1 / float64(j)
}

// productOfPlaces takes the places for independent of each other, and the third ones as
// spread evenly.
func (s *doubleHashing) productOfPlaces() float64 {
	even := 0.0
	if s.k > 2 {
		even = s.keys / float64(s.m)
	}
	rate := 1.0
	for j := range s.k {
		var taken float64
		for p, load := range s.loads {
			d := 1.0
			if j != 2 {
				d = s.density(j, uint64(p))
			}
			taken += d * s.taken(load+even)
		}
		rate *= taken / float64(len(s.loads))
	}
	return rate
}

// taken is the chance that one of so many keys is at a place, for who has no key's hash.
func (s *doubleHashing) taken(keys float64) float64 {
	return -math.Expm1(-max(keys-s.own, 0))
}

// meanOfHashes is the mean of the chances of single hashes to find all their places
// taken. By the Chinese remainders a hash is r + 65537 q, and r is given by
// e = delta/m modulo 65537, which says which multiples of m lie between an absent
// key's values and those of third places: all of them are near where e is near 0 or, if
// delta is taken as negative, near 1/m. The samples are even in e, with more at those
// two, each counting the less, and in q.
func (s *doubleHashing) meanOfHashes() float64 {
	multiples := hashValues / s.m // of m, below 2^32
	half := multiples / 2
	wide, near := uint64(1024), uint64(0)
	switch {
	case s.m > 1<<28: // hashes near the two are so rare that equal ones outweigh them
		wide = 2048
	case s.m > 1<<19:
		wide, near = 8192, 4096
	case s.m > 1<<17:
		wide, near = 4096, 2048
	}
	width := 2*half + 1
	density := func(e uint64) float64 { // how many samples there are of an e
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

// chance is that of the hash with this e and, of the 65,536 of them, the ith when they
// are taken in an order that is even from the beginning.
func (s *doubleHashing) chance(e, i uint64) float64 {
	delta := e * (s.m % thirdFactor) % thirdFactor
	r := (2*thirdFactor - 2*delta) % thirdFactor // place 0 is -2 delta
	q := uint64(uint32(i)*0x9e3779b9) >> 16
	h := uint32(r + thirdFactor*q) // past 2^32 for the greatest q alone
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

// values is how many values leave p, relative to the mean: one more in the lower places,
// which tells where m is a great part of 2^32.
func (s *doubleHashing) values(p uint64) float64 {
	n := hashValues / s.m
	if p < hashValues%s.m {
		n++
	}
	return float64(n) * float64(s.m) / hashValues
}

// thirds is how many keys are expected to have their third place at p: those whose third
// value is p and a multiple of m.
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

// wrapsOfThird is the chance that h + 2 delta passed 2^32 w times if the value that it
// left is this part of 2^32.
func wrapsOfThird(w int, part float64) float64 {
	switch w {
	case 0:
		return part / 2
	case 1:
		return 0.5
	}
	return (1 - part) / 2
}

// coincidences are what crowding adds, times m, in a filter nearly half full: by an
// absent key's own places that coincide, by keys with the same first place and step, and
// by those with another place and step that share two places or more. From k = 13 on they
// fall as 1/k. They are means over where h and delta lie in 2^32, which decides
// how often each place passes it.
var coincidences = [...]struct{ own, same, other float64 }{
	2: {0.44, 0.55, 0.55}, 3: {0.55, 0.49, 1.14}, 4: {0.57, 0.39, 1.35}, 5: {0.65, 0.33, 1.55},
	6: {0.62, 0.26, 1.43}, 7: {0.56, 0.19, 1.20}, 8: {0.51, 0.15, 1.01}, 9: {0.48, 0.11, 0.79},
	10: {0.43, 0.09, 0.63}, 11: {0.37, 0.07, 0.49}, 12: {0.35, 0.05, 0.36}, 13: {0.32, 0.04, 0.30},
}

// crowding is what places that coincide add to the rate: a thirtieth of it with a
// thousand keys at ten bits, half with twenty.
func (s *doubleHashing) crowding() float64 {
	if s.k < 2 {
		return 0
	}
	c := coincidences[min(s.k, len(coincidences)-1)]
	m := float64(s.m)
	fill := -math.Expm1(-float64(s.k) * s.keys / m)
	// Two hashes that are the same modulo a divisor of m and M have the same step, too.
	pairs := s.keys / m * (c.same*float64(len(s.loads)) + c.other)
	return (c.own + pairs) / m * math.Pow(fill/0.48, 3) * min(1, float64(len(coincidences)-1)/float64(s.k))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// power returns b to the nth modulo thirdFactor, a prime.
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
