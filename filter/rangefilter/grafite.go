package rangefilter

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/sievedb/sievedb/util"
)

// The bytes of a Grafite filter
//
// A filter of Grafite, "sievedb.Grafite.", the Extractor's name, a dot and the Number's name, has a position for each
// of the N pairs of a prefix and a number, in ascending order, in the encoding of Elias and Fano.
//
//	+------------+------------+---+-----+-------+---------+
//	| lower bits | upper bits | N | low | flags | version |
//	+------------+------------+---+-----+-------+---------+
//
//	offset  size  meaning
//	------  ----  -----------------------------------------------------------
//	0       L     the lower bits of position i from bit low × i on, counted from the
//	              lowest of the first byte; L = N × low / 8, rounded up
//	L       H     the upper bits in unary: for each bucket 0 to N-1 a one for each
//	              position whose upper bits are the bucket, then a zero; in words of
//	              eight bytes, 2 N bits rounded up
//	L+H     8     N, at most 2^26
//	+8      1     low, 1 to 32: the bits per key minus two
//	+9      1     1 if every key had a prefix, plus 2 if every number was complete
//	+10     1     1, the version of this layout
//
// For other lengths, another number of ones, or values out of range the answer is "perhaps". The
// filter of more keys has no bytes, and its answer is "perhaps" too. A number x after a prefix
// has its position in a universe of r = N × 2^low:
//
//	z        = XXH3-64 of the prefix, seed 0, + (x / r) × 0x9e3779b97f4a7c15
//	z        = (z xor z / 2^30) × 0xbf58476d1ce4e5b9
//	z        = (z xor z / 2^27) × 0x94d049bb133111eb, all modulo 2^64
//	offset   = (z xor z / 2^31) × r / 2^64, rounded down
//	position = (offset + x mod r) mod r
//
// so that the numbers of one block of r keep their distances. A range of numbers becomes one
// range of positions, or two if it extends into the next block; each may wrap around at r.
//
// By hand: the keys "a" 05, "a" 90 and "c" 05 with FixedPrefix(1) and BigEndian(1) at six bits
// per key. N is 3, low 4, r 48.
//
//	key   block  offset  position  upper  lower
//	----  -----  ------  --------  -----  -----
//	a 90  3      0       0         0      0
//	c 05  0      32      37        2      5
//	a 05  0      34      39        2      7
//
//	lower bits 50 07, upper bits 1 0, 0, 1 1 0: 19 00 00 00 00 00 00 00,
//	N 03 00 00 00 00 00 00 00, low 04, flags 03, version 01

// These reach the disk and never change.
const (
	grafiteName      = "sievedb.Grafite."
	grafiteVersion   = 1
	grafiteTailBytes = 11 // the number of positions, the lower bits, the flags, the version
	allPrefixed      = 1  // flags: every key had a prefix
	allFull          = 2  // flags: every number was complete
	minGrafiteBits   = 3
	maxGrafiteBits   = 34
	maxGrafiteKeys   = 1 << 26
	// grafiteMix is 2^64 divided by the golden ratio.
	grafiteMix = 0x9e3779b97f4a7c15
)

// Grafite makes filters for short ranges of numbers that follow a prefix in the key, such as times and counters. Their
// name is "sievedb.Grafite." with the names of the extractor and of the number, as in "sievedb.Grafite.fixed:8.be8".
//
// With b bits per key, the false-positive rate of a range of length numbers is at most length/2^(b-2), whatever the
// keys and the range: 0.2 % for 32 numbers at 16 bits per key. It is lower for dense keys: numbers of one prefix in an
// interval of 2^(b-2) times the keys of the table are distinguished exactly.
//
// Ranges whose bounds have different prefixes always match, unless the range extends from a
// number to the end of its prefix. An adversary who chooses keys and ranges to suit the
// filter's hash can cause any rate. A Grafite is a comparable value.
//
// Source: M. Costa, P. Ferragina, G. Vinciguerra, "Grafite: Taming Adversarial Queries with Optimal Range Filters",
// SIGMOD 2024, arXiv 2311.15380. There the keys are single machine words; here the prefix also determines the position
// of a number's block in the universe. The eight bytes after what all keys share would not do for such a word: counters
// use two of them, so each step would be 2^48 wide. What follows the number is ignored; that costs false positives.
type Grafite struct {
	extractor  Extractor
	number     Number
	bitsPerKey int
}

var _ Policy = Grafite{}

// NewGrafite returns the policy for numbers after the prefixes that e extracts, with bitsPerKey
// bits per key, at least 3 and at most 34. With FixedPrefix(0), the numbers are at the start of
// the keys. Keys without a prefix are in no filter.
func NewGrafite(e Extractor, n Number, bitsPerKey int) Grafite {
	return Grafite{e, n, min(max(bitsPerKey, minGrafiteBits), maxGrafiteBits)}
}

// Name returns "sievedb.Grafite.fixed:8.be8", for example.
func (p Grafite) Name() string { return grafiteName + p.extractor.Name() + "." + p.number.Name() }

// BitsPerKey returns the number of bits that new filters use for each key; keys with the same
// prefix and number count once.
func (p Grafite) BitsPerKey() int { return p.bitsPerKey }

// PredictedRate returns the false-positive rate, 0 to 1, for a range of length numbers with no
// key near it: 1 - e^(-length/2^(b-2)).
func (p Grafite) PredictedRate(length uint64) float64 {
	return -math.Expm1(-math.Ldexp(float64(length), -p.lowBits()))
}

func (p Grafite) lowBits() int { return p.bitsPerKey - 2 }

// NewGenerator implements Policy. The generator keeps 16 bytes per key, and eight more while it
// makes a filter. For more than 67 million numbers it makes a filter that rules nothing out.
func (p Grafite) NewGenerator() Generator {
	return &grafiteGenerator{policy: p, flags: allPrefixed | allFull}
}

// NewProbe implements Policy. The probe uses an eighth of a bit per key in addition to the filter.
func (p Grafite) NewProbe(filter []byte) (Probe, bool) {
	g, ok := parseGrafite(filter)
	g.extractor, g.number = p.extractor, p.number
	return &g, ok
}

// grafiteUniverse is the range of positions: they are below r, the number of positions times
// 2^low. The numbers of a prefix are divided into blocks of r. Each block is rotated around the
// universe, as a ring, by its own offset, so that ranges stay ranges.
type grafiteUniverse struct{ r uint64 }

// offset returns the position of the first number of a prefix's block.
func (g grafiteUniverse) offset(prefixHash, block uint64) uint64 {
	h := prefixHash + block*grafiteMix
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9 // Stafford's mixer 13, of SplitMix64
	h = (h ^ h>>27) * 0x94d049bb133111eb
	at, _ := bits.Mul64(h^h>>31, g.r)
	return at
}

func (g grafiteUniverse) position(prefixHash, x uint64) uint64 {
	return wrapped(g.offset(prefixHash, x/g.r)+x%g.r, g.r)
}

// wrapped returns x mod r for an x below 2r.
func wrapped(x, r uint64) uint64 {
	if x >= r {
		x -= r
	}
	return x
}

// grafiteProbe is a well-formed filter.
type grafiteProbe struct {
	extractor Extractor
	number    Number
	flags     byte
	universe  grafiteUniverse
	positions eliasFano
}

// parseGrafite parses a filter. ok is false for bytes that no writer of this version makes.
func parseGrafite(filter []byte) (p grafiteProbe, ok bool) {
	end := len(filter) - grafiteTailBytes
	if end < 0 {
		return p, false
	}
	n, tail := binary.LittleEndian.Uint64(filter[end:]), filter[end+8:]
	low := uint64(tail[0])
	if n > maxGrafiteKeys || low == 0 || low > maxGrafiteBits-2 || tail[1] > allPrefixed|allFull ||
		tail[2] != grafiteVersion {
		return p, false
	}
	p.flags, p.universe = tail[1], grafiteUniverse{n << low}
	p.positions, ok = parseEliasFano(filter[:end:end], n, low)
	return p, ok
}

// MayMatch implements Probe.
func (p *grafiteProbe) MayMatch(lower, upper []byte) bool {
	if bytes.Compare(lower, upper) >= 0 {
		return false
	}
	if p.flags&allPrefixed != 0 {
		upper = p.extractor.withoutZeros(upper)
	}
	prefix, ok := p.extractor.Common(lower, upper)
	if !ok {
		return true
	}
	a, _ := p.number.of(lower[len(prefix):])
	b := p.number.greatest()
	if bytes.HasPrefix(upper, prefix) {
		exclusive := false
		if b, exclusive = p.number.below(upper[len(prefix):]); exclusive && p.flags&allFull != 0 {
			if b == 0 {
				return false
			}
			b--
		}
	}
	return a <= b && p.positions.n > 0 && p.anyNumber(util.XXH3(prefix), a, b)
}

// anyNumber reports whether the filter may contain one of the numbers a to b of a prefix. It
// divides once: a 64-bit division takes as long as a load from the cache.
func (p *grafiteProbe) anyNumber(prefixHash, a, b uint64) bool {
	r := p.universe.r
	if b-a >= r-1 {
		return true
	}
	block, from := a/r, a%r
	to := from + (b - a)
	if to >= r {
		return p.anyInBlock(prefixHash, block, from, r-1) || p.anyInBlock(prefixHash, block+1, 0, to-r)
	}
	return p.anyInBlock(prefixHash, block, from, to)
}

// anyInBlock does the same for the numbers from..to of one block, counted from its beginning.
func (p *grafiteProbe) anyInBlock(prefixHash, block, from, to uint64) bool {
	r, offset := p.universe.r, p.universe.offset(prefixHash, block)
	u, v := wrapped(offset+from, r), wrapped(offset+to, r)
	if u <= v {
		return p.positions.anyWithin(u, v)
	}
	return p.positions.anyWithin(u, r-1) || p.positions.anyWithin(0, v)
}

// grafiteGenerator collects the numbers of keys, each with the hash of its prefix.
type grafiteGenerator struct {
	policy    Grafite
	numbers   []prefixedNumber
	positions []uint64 // scratch
	flags     byte
	last      []byte // the prefix added last, if there are numbers
}

type prefixedNumber struct{ prefixHash, x uint64 }

func (g *grafiteGenerator) Add(key []byte) {
	prefix, ok := g.policy.extractor.Prefix(key)
	if !ok {
		g.flags &^= allPrefixed
		return
	}
	x, full := g.policy.number.of(key[len(prefix):])
	if !full {
		g.flags &^= allFull
	}
	next := prefixedNumber{x: x}
	if n := len(g.numbers); n > 0 && bytes.Equal(prefix, g.last) {
		next.prefixHash = g.numbers[n-1].prefixHash
		if next == g.numbers[n-1] {
			return
		}
	} else {
		next.prefixHash = util.XXH3(prefix)
		g.last = append(g.last[:0], prefix...)
	}
	if n := len(g.numbers); n == cap(g.numbers) {
		// Doubled: append grows by a quarter and would copy each number five times.
		g.numbers = slices.Grow(g.numbers, max(n, 512))
	}
	g.numbers = append(g.numbers, next)
}

func (g *grafiteGenerator) AppendChecked(dst []byte) (extended []byte, denied int) {
	start, low := len(dst), g.policy.lowBits()
	if len(g.numbers) <= maxGrafiteKeys {
		g.place(low)
		dst = appendEliasFano(dst, g.positions, uint64(low))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(g.numbers)))
		dst = append(dst, byte(low), g.flags, grafiteVersion)
	}
	probe, ok := parseGrafite(dst[start:])
	for _, n := range g.numbers {
		if ok && !probe.anyNumber(n.prefixHash, n.x, n.x) {
			denied++
		}
	}
	g.Reset()
	return dst, denied
}

// place sets the sorted positions. It first distributes them over buckets of a few positions
// each and sorts those: for a million random positions this takes a third of the time. Dense
// numbers may all be in one bucket, but arrive in order.
func (g *grafiteGenerator) place(low int) {
	const perBucket, maxBuckets = 8, 1 << 12
	n := len(g.numbers)
	if cap(g.positions) < n {
		g.positions = make([]uint64, n)
	}
	g.positions = g.positions[:n]
	if n == 0 {
		return
	}
	universe := grafiteUniverse{uint64(n) << low}
	lg := bits.Len(uint(min(n/perBucket, maxBuckets-1)))
	shift := bits.Len64(universe.r-1) - lg // r is greater than the number of keys
	var memory [maxBuckets]uint32
	ends := memory[:1<<lg]
	for _, x := range g.numbers {
		ends[universe.position(x.prefixHash, x.x)>>shift]++
	}
	begin := uint32(0)
	for i, count := range ends {
		ends[i] = begin
		begin += count
	}
	for _, x := range g.numbers {
		at := universe.position(x.prefixHash, x.x)
		end := &ends[at>>shift]
		g.positions[*end] = at
		*end++
	}
	begin = 0
	for _, end := range ends {
		slices.Sort(g.positions[begin:end])
		begin = end
	}
}

func (g *grafiteGenerator) Reset() {
	g.numbers, g.flags, g.last = g.numbers[:0], allPrefixed|allFull, keptPrefix(g.last)
}
