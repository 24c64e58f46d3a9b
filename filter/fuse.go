package filter

import "math/bits"

// These reach the disk and never change.
const (
	fuseName      = "sievedb.BinaryFuse8"
	fuseVersion   = 1
	fuseArity     = 4 // slots of a key, in as many neighbouring segments
	fuseTailBytes = 3 // the multiplier's number, the segments' size, the version
	maxFuseLg     = 16
	// fuseMul is 2^64 divided by the golden ratio.
	fuseMul = 0x9e3779b97f4a7c15
)

// FusePolicy makes binary fuse filters, "sievedb.BinaryFuse8", with one byte for
// each of a few more slots than keys: 9.4 bits a key where a table has 20,000 keys,
// 8.6 from a million on, more where it has few (see FilterSize). They err in one of
// 256 absent keys, 0.39 %, whatever the keys and their number; a bloom filter takes
// 11.5 bits for that, and cache lines 12.2. To make one takes three to five times as
// long, and 32 bytes a key of memory meanwhile; to ask one costs about the same. They
// suit tables that live long. LevelDB and goleveldb pass them over.
//
// FusePolicy is a Policy, a GeneratorPolicy, a DirectPolicy and a VersionedPolicy,
// and hashes keys as cache-line filters do (SameHash). It has no settings: all its
// values are equal.
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

// CreateFilter implements Policy. The filter depends on the set of the keys alone:
// neither their order nor repetitions matter. It allocates 32 bytes a key and gives
// them back.
//
// For keys that somebody chose against it, and for more than 536 million, it
// makes a filter of three bytes that rules nothing out and that Understands denies: a
// reader asks the table's next filter then.
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

// NewGenerator implements GeneratorPolicy. The generator keeps eight bytes a key,
// and 24 more once it has made a filter.
func (FusePolicy) NewGenerator() Generator { return &fuseGenerator{} }

// fuseShape is how slots are laid out and which of them are a key's.
type fuseShape struct {
	span uint64 // where a key's first slot may be: a positive multiple of 1<<lg
	lg   uint   // log2 of the slots of a segment, at most maxFuseLg
	mul  uint64 // odd; another one makes another filter of the same keys
}

// fuseMultiplier returns the multiplier of the given number.
func fuseMultiplier(number uint8) uint64 { return fuseMul * (2*uint64(number) + 1) }

// slots returns how many slots there are: the last first slot's segment has the
// segments of the others behind it.
func (s fuseShape) slots() uint64 { return s.span + (fuseArity-1)<<s.lg }

// mix returns the bits of a key that choose its slots and its fingerprint: both
// halves of a product, so that another multiplier chooses anew.
func (s fuseShape) mix(hash uint64) uint64 {
	hi, lo := bits.Mul64(hash, s.mul)
	return hi ^ lo
}

// places returns a mixed key's slots, each in a segment of its own. Neighbours of
// the key by the upper bits have theirs nearby, which is what lets the filter be
// small: such systems can be solved when they are nearly full.
func (s fuseShape) places(mixed uint64) (a, b, c, d uint64) {
	size := uint64(1) << (s.lg % 64)
	a, _ = bits.Mul64(mixed, s.span)
	b = (a + size) ^ mixed>>32&(size-1)
	c = (a + 2*size) ^ mixed>>16&(size-1)
	d = (a + 3*size) ^ mixed&(size-1)
	return a, b, c, d
}

// fingerprint is what a mixed key's slots add up to, in the sense of xor.
func fingerprint(mixed uint64) byte { return byte(mixed * fuseMul >> 56) }

// fuseProbe is a well-formed binary fuse filter.
type fuseProbe struct {
	array []byte // shape.slots() of them
	shape fuseShape
}

// HashMayMatch waits for its four slots at once, which lie in up to four cache lines,
// and branches on nothing before the answer.
func (p *fuseProbe) HashMayMatch(hash uint64) bool {
	mixed := p.shape.mix(hash)
	a, b, c, d := p.shape.places(mixed)
	return p.array[a]^p.array[b]^p.array[c]^p.array[d] == fingerprint(mixed)
}

// parseFuse takes a filter apart. What no writer of this version makes, and the
// filter of one that gave up, is not ok and may match.
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
