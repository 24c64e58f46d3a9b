package filter

import "math/bits"

// The bytes of a binary fuse filter
//
// A filter of FusePolicy, "sievedb.BinaryFuse8", has slots of one byte. Each key has four
// of them, whose xor is the key's fingerprint. There are few more slots than keys: the
// writer of the filter solves the equations.
//
//	+-----------+-----------+-----+-----------+--------+----+---------+
//	| segment 0 | segment 1 |  …  |segment S-1| number | lg | version |
//	+-----------+-----------+-----+-----------+--------+----+---------+
//
//	offset    size      meaning
//	--------  --------  ---------------------------------------------------
//	0         S × 2^lg  the slots, in S segments of 2^lg; S is at least 4
//	S × 2^lg  1         the number of the multiplier; a writer tries another if
//	                    there is no solution for its keys
//	+1        1         lg, at most 16
//	+2        1         1, the version of this layout
//
// A reader derives S from the length. It answers "perhaps" for every key if it does not know
// the form: a length that is not a multiple of a segment, fewer than four segments, a
// greater lg, or another version. A writer that found no solution writes no slots.
//
//	h      = XXH3-64 of the key, seed 0, as for cache lines
//	m      = 0x9e3779b97f4a7c15 × (2 × number + 1), modulo 2^64
//	g      = h × m / 2^64, rounded down, xor h × m modulo 2^64
//	slot 0 = g × ((S-3) × 2^lg) / 2^64, rounded down, within its segment at w
//	slot 1 = in the next segment, at w xor the lower lg bits of g / 2^32
//	slot 2 = in the segment after that, at w xor the lower lg bits of g / 2^16
//	slot 3 = in the segment after that, at w xor the lower lg bits of g
//	print  = g × 0x9e3779b97f4a7c15 (modulo 2^64) / 2^56
//
// The xor of a stored key's four slots is print; so is that of one in 256 other keys.
//
// By hand: the keys "hello" and "world" have five segments of two slots, multiplier 0.
//
//	key    g                   slots        print
//	-----  ------------------  -----------  -----
//	hello  0x201c0e11b2ca81b4  0  3  4  6   f3
//	world  0x41586371227cafd2  1  2  5  7   48
//
//	slot   0  1  2  3  4  5  6  7  8  9  number  lg  version
//	value f3 48 00 00 00 00 00 00 00 00      00  01       01

// These reach the disk and never change. Three slots a key would use 9.8 bits a key instead of
// 9.4 at 18,000 keys, and 9.0 instead of 8.5 at a million (TestFuseFiltersHaveThePredictedSize has the sizes of four).
const (
	fuseName      = "sievedb.BinaryFuse8"
	fuseVersion   = 1
	fuseArity     = 4 // slots of a key, in as many adjacent segments
	fuseTailBytes = 3 // the multiplier's number, lg of the segment size, the version
	maxFuseLg     = 16
	// fuseMul is 2^64 divided by the golden ratio.
	fuseMul = 0x9e3779b97f4a7c15
)

// FusePolicy makes binary fuse filters, "sievedb.BinaryFuse8". They have one byte for each
// slot and few more slots than keys: 9.4 bits per key for a table of 20,000 keys, 8.6 from
// a million on, and more for few keys (see FilterSize). Their false-positive rate is 1/256,
// or 0.39 %, whatever the keys and their number. For that rate a bloom filter needs 11.5
// bits per key, and a cache-line filter 12.2. A fuse filter takes three to five times as
// long to make and needs 32 bytes of memory per key meanwhile; a query costs about the
// same. Fuse filters suit long-lived tables. LevelDB and goleveldb ignore them.
//
// FusePolicy implements Policy, GeneratorPolicy, DirectPolicy and VersionedPolicy. It
// hashes keys as cache-line filters do (see SameHash). It has no settings: all its values
// are equal.
//
// Source: Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters",
// 2022, arXiv 2201.01174; the four-wise kind.
type FusePolicy struct{}

var (
	_ GeneratorPolicy = FusePolicy{}
	_ DirectPolicy    = FusePolicy{}
	_ VersionedPolicy = FusePolicy{}
)

// Name returns "sievedb.BinaryFuse8".
func (FusePolicy) Name() string { return fuseName }

// CreateFilter implements Policy. The filter depends only on the set of keys: neither
// their order nor duplicates matter. It allocates 32 bytes per key temporarily.
//
// For keys that an adversary chose, and for more than 536 million keys, it makes a filter
// of three bytes that rules nothing out and for which Understands returns false: a reader
// then uses the table's next filter.
func (p FusePolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	g := fuseGenerator{hashes: make([]uint64, 0, len(keys))}
	for _, key := range keys {
		g.Add(key)
	}
	return g.AppendFilter(dst)
}

// KeyMayMatch implements Policy. It allocates nothing.
func (p FusePolicy) KeyMayMatch(key, filter []byte) bool {
	return p.HashMayMatchFilter(p.KeyHash(key), filter)
}

// KeyHash implements HashPolicy.
func (FusePolicy) KeyHash(key []byte) uint64 { return cacheLineHash(key) }

// HashMayMatchFilter implements DirectPolicy.
func (FusePolicy) HashMayMatchFilter(hash uint64, filter []byte) bool {
	probe, ok := parseFuse(filter)
	return !ok || probe.HashMayMatch(hash)
}

// NewProbe implements HashPolicy.
func (FusePolicy) NewProbe(filter []byte) Probe {
	probe, ok := parseFuse(filter)
	if !ok {
		return fixedProbe(true)
	}
	return &probe
}

// Understands implements VersionedPolicy.
func (FusePolicy) Understands(filter []byte) bool {
	_, ok := parseFuse(filter)
	return ok
}

// NewGenerator implements GeneratorPolicy. The generator keeps eight bytes per key, and 24
// more once it has made a filter.
func (FusePolicy) NewGenerator() Generator { return &fuseGenerator{} }

// fuseShape is the layout of the slots. It determines the slots of a key.
type fuseShape struct {
	span uint64 // a key's first slot is below it; a positive multiple of 1<<lg
	lg   uint   // log2 of the slots of a segment, at most maxFuseLg
	mul  uint64 // odd; another multiplier gives another filter of the same keys
}

// fuseMultiplier returns the multiplier with the given number.
func fuseMultiplier(number uint8) uint64 { return fuseMul * (2*uint64(number) + 1) }

// slots returns the number of slots: span and three more segments, for the other slots of
// the keys whose first slot is in the last segment of span.
func (s fuseShape) slots() uint64 { return s.span + (fuseArity-1)<<s.lg }

// mix returns the bits of a key that choose its slots and its fingerprint. They are both
// halves of a product, so that another multiplier chooses different slots.
func (s fuseShape) mix(hash uint64) uint64 {
	hi, lo := bits.Mul64(hash, s.mul)
	return hi ^ lo
}

// places returns a mixed key's slots, each in a different segment. Keys with similar upper
// bits have slots near each other, which lets the filter be small: such systems of
// equations can be solved when nearly all slots are used.
func (s fuseShape) places(mixed uint64) (a, b, c, d uint64) {
	size := uint64(1) << (s.lg % 64)
	a, _ = bits.Mul64(mixed, s.span)
	b = (a + size) ^ mixed>>32&(size-1)
	c = (a + 2*size) ^ mixed>>16&(size-1)
	d = (a + 3*size) ^ mixed&(size-1)
	return a, b, c, d
}

// fingerprint is the xor of a mixed key's slots.
func fingerprint(mixed uint64) byte { return byte(mixed * fuseMul >> 56) }

// fuseProbe is a well-formed binary fuse filter.
type fuseProbe struct {
	array []byte // shape.slots() of them
	shape fuseShape
}

// HashMayMatch loads its four slots, in up to four cache lines, at the same time, and has
// no branch before the answer.
func (p *fuseProbe) HashMayMatch(hash uint64) bool {
	mixed := p.shape.mix(hash)
	a, b, c, d := p.shape.places(mixed)
	return p.array[a]^p.array[b]^p.array[c]^p.array[d] == fingerprint(mixed)
}

// parseFuse splits a filter. ok is false for bytes that no writer of this version makes,
// and for the filter of a writer that found no solution: these may match.
func parseFuse(filter []byte) (p fuseProbe, ok bool) {
	n := len(filter) - fuseTailBytes
	if n < 0 || filter[n+2] != fuseVersion {
		return p, false
	}
	lg := uint(filter[n+1])
	if lg > maxFuseLg || n&(1<<lg-1) != 0 || n>>lg < fuseArity {
		return p, false
	}
	return fuseProbe{array: filter[:n], shape: fuseShape{
		span: uint64(n) - (fuseArity-1)<<lg,
		lg:   lg,
		mul:  fuseMultiplier(filter[n]),
	}}, true
}
