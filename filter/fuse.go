package filter

import "github.com/sievedb/sievedb/internal/base/fuse"

// The bytes of a binary fuse filter
//
// A filter of FusePolicy, "sievedb.BinaryFuse8", has slots of 1 to 16 bits. Each key has four of them, whose xor is the
// key's fingerprint. There are few more slots than keys: the writer of the filter solves the equations.
//
// Version 1 has slots of one byte.
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
//
// Version 2 has slots of width bits, in groups of eight slots. The number of slots is a multiple of eight and of 2^lg.
//
//	+---------+---------+-----+--------+----+-------+---------+
//	| group 0 | group 1 |  …  | number | lg | width | version |
//	+---------+---------+-----+--------+----+-------+---------+
//
//	offset     size       meaning
//	---------  ---------  ---------------------------------------------------
//	0          G × width  the slots: slot i is the bits from bit i × width on; bit j
//	                      is bit j modulo 8 of byte j / 8
//	G × width  1          the number of the multiplier
//	+1         1          lg, at most 16
//	+2         1          width, 1 to 16
//	+3         1          2, the version of this layout
//
// The slots of a key are those of version 1. Its print is the lower width bits of g × 0x9e3779b97f4a7c15 / 2^32.
//
// By hand: with slots of 7 bits, the same keys have eight segments of two slots, or two groups.
//
//	key    g                   slots        print
//	-----  ------------------  -----------  -----
//	hello  0x201c0e11b2ca81b4   1  2  5  7  03
//	world  0x41586371227cafd2   2  5  6  8  02
//
// Slot 1 is 1 and slot 2 is 2; the others are 0.
//
//	group 0              group 1              number  lg  width  version
//	80 80 00 00 00 00 00 00 00 00 00 00 00 00     00  01     07       02
//
// Both versions have one name, because a reader that knows only version 1 treats version 2 as it
// treats an unknown name: it uses the table's next filter, or none. A second name would cost
// another look-up whenever a table is opened. The 8 in the name is that of version 1.

// These reach the disk and never change.
const (
	fuseName          = "sievedb.BinaryFuse8"
	fuseVersion       = 1
	fusePackedVersion = 2
	fuseTailBytes     = 3 // the multiplier's number, lg of the segment size, the version
	fusePackedEnd     = 1 // the version, after a fuse.Packed
)

const (
	// MaxFuseBits is the largest number of bits of a slot of a FusePolicy.
	MaxFuseBits = fuse.MaxWidth

	// defaultFuseBits is the number of bits of a slot of the zero FusePolicy.
	defaultFuseBits = 8
)

// FusePolicy makes binary fuse filters, "sievedb.BinaryFuse8". They have few more slots than keys:
// 1.18 for each key of a table of 20,000 keys, 1.07 from a million on, and more for few keys (see
// FilterSize). The policy chooses the bits of a slot: with b bits the false-positive rate is 2^-b,
// whatever the keys and their number. For example, slots of 7 bits use 8.2 bits per key at 20,000
// keys and have a rate of 0.78 %; for that rate a cache-line filter needs 10.6 bits per key. A fuse
// filter takes three to five times as long to make and needs 32 bytes of memory per key meanwhile;
// a query costs about the same. Fuse filters suit long-lived tables. LevelDB and goleveldb ignore
// them.
//
// FusePolicy implements Policy, GeneratorPolicy, DirectPolicy and VersionedPolicy. It hashes keys as cache-line filters
// do (see SameHash). It is a small value: compare policies with ==. The zero FusePolicy equals NewFusePolicy(8). The
// bits affect only new filters; any FusePolicy reads all filters of its name.
//
// Source: Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters",
// 2022, arXiv 2201.01174; the four-wise kind.
type FusePolicy struct {
	// slotBits is 0 for defaultFuseBits, never that number, so that equal policies compare equal.
	slotBits uint8
}

var (
	_ GeneratorPolicy = FusePolicy{}
	_ DirectPolicy    = FusePolicy{}
	_ VersionedPolicy = FusePolicy{}
)

// NewFusePolicy returns the policy of binary fuse filters with slots of slotBits bits. Values below 1 count as 1, and
// values above MaxFuseBits as MaxFuseBits. Versions of SieveDB that know only slots of 8 bits use none of the others.
func NewFusePolicy(slotBits int) FusePolicy {
	b := min(max(slotBits, 1), MaxFuseBits)
	if b == defaultFuseBits {
		b = 0
	}
	return FusePolicy{slotBits: uint8(b)}
}

// SlotBits returns the number of bits of a slot, within 1..MaxFuseBits.
func (p FusePolicy) SlotBits() int {
	if p.slotBits == 0 {
		return defaultFuseBits
	}
	return int(p.slotBits)
}

// Name returns "sievedb.BinaryFuse8".
func (FusePolicy) Name() string { return fuseName }

// CreateFilter implements Policy. The filter depends only on the set of keys: neither
// their order nor duplicates matter. It allocates 32 bytes per key temporarily. Without keys it answers
// "perhaps" as often as any other: the format has no filter that rules everything out.
//
// For keys that an adversary chose, and for more keys than 536 million, or fewer if slots have more
// than 8 bits, it makes a filter of three or four bytes that rules nothing out and for which
// Understands returns false: a reader then uses the table's next filter.
func (p FusePolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	g := fuseGenerator{slotBits: p.SlotBits(), hashes: make([]uint64, 0, len(keys))}
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
	switch fuseVersionOf(filter) {
	case fuseVersion:
		probe, ok := parseFuse(filter)
		return !ok || probe.HashMayMatch(hash)
	case fusePackedVersion:
		probe, ok := parsePackedFuse(filter)
		return !ok || probe.HashMayMatch(hash)
	}
	return true
}

// NewProbe implements HashPolicy.
func (FusePolicy) NewProbe(filter []byte) Probe {
	switch fuseVersionOf(filter) {
	case fuseVersion:
		if probe, ok := parseFuse(filter); ok {
			return &probe
		}
	case fusePackedVersion:
		if probe, ok := parsePackedFuse(filter); ok {
			return &probe
		}
	}
	return fixedProbe(true)
}

// Understands implements VersionedPolicy.
func (FusePolicy) Understands(filter []byte) bool {
	_, _, ok := slotsOfFuse(filter)
	return ok
}

// NewGenerator implements GeneratorPolicy. The generator keeps eight bytes per key, and 24
// more once it has made a filter.
func (p FusePolicy) NewGenerator() Generator { return &fuseGenerator{slotBits: p.SlotBits()} }

// fuseVersionOf returns the version of a filter, 0 for an empty one.
func fuseVersionOf(filter []byte) byte {
	if len(filter) == 0 {
		return 0
	}
	return filter[len(filter)-1]
}

// slotsOfFuse returns the bytes of the slots of a filter and the bits of a slot. ok is as for parseFuse.
func slotsOfFuse(filter []byte) (slots []byte, slotBits int, ok bool) {
	if fuseVersionOf(filter) == fuseVersion {
		probe, ok := parseFuse(filter)
		return probe.array, defaultFuseBits, ok
	}
	probe, ok := parsePackedFuse(filter)
	if !ok {
		return nil, 0, false
	}
	return filter[:len(filter)-fuseTailBytes-fusePackedEnd], int(probe.Width()), true
}

// fingerprint is the xor of a mixed key's slots of 8 bits.
func fingerprint(mixed uint64) byte { return byte(mixed * fuse.Golden >> 56) }

// fuseProbe is a well-formed filter of version 1.
type fuseProbe struct {
	array []byte // shape.Slots() of them
	shape fuse.Shape
}

// HashMayMatch loads its four slots, in up to four cache lines, at the same time, and has no branch before the answer.
func (p *fuseProbe) HashMayMatch(hash uint64) bool {
	mixed := p.shape.Mix(hash)
	a, b, c, d := p.shape.Places(mixed)
	return p.array[a]^p.array[b]^p.array[c]^p.array[d] == fingerprint(mixed)
}

// parseFuse splits a filter of version 1. ok is false for bytes that no writer of this version
// makes, and for the filter of a writer that found no solution: these may match.
func parseFuse(filter []byte) (p fuseProbe, ok bool) {
	n := len(filter) - fuseTailBytes
	if n < 0 || filter[n+2] != fuseVersion {
		return p, false
	}
	shape, ok := fuse.ShapeOf(uint64(n), filter[n+1], filter[n])
	return fuseProbe{array: filter[:n], shape: shape}, ok
}

// parsePackedFuse is parseFuse for version 2.
func parsePackedFuse(filter []byte) (p fuse.Packed, ok bool) {
	if fuseVersionOf(filter) != fusePackedVersion {
		return p, false
	}
	return fuse.ParsePacked(filter, fusePackedEnd)
}
