package filter

import "github.com/sievedb/sievedb/util"

// legacyName reaches the disk and never changes.
const legacyName = "leveldb.BuiltinBloomFilter"

// LegacyBloom reads bloom filters under the old name "leveldb.BuiltinBloomFilter", without the 2. They have the form of
// BloomPolicy's filters, but the name does not say which bits per key has set:
//
//	writer                                  the key's last length mod 4 bytes
//	--------------------------------------  ---------------------------------
//	goleveldb                               unsigned, 0 to 255
//	LevelDB to 1.17, if char is signed      signed, -128 to 127
//	(as on x86)
//
// LegacyBloom therefore tests both hashes, and denies a key only if the filter has neither. The hashes differ only if
// one of those bytes is 0x80 or more; for other keys the answer, its cost and its false-positive rate are those of
// BloomPolicy. For keys with such bytes a filter that denies the first hash is queried again, and the false-positive
// rate is about twice as high. (A reader that assumes the wrong encoding misses about seven of eight random keys of
// seven bytes.)
//
// LegacyBloom can also write filters, for both encodings simultaneously: a key whose hashes differ sets the bits of
// both and counts as two keys for the size. Every reader of the name then finds every key. If no key has such bytes,
// the filter is bit for bit the one that both programs write with DefaultBitsPerKey bits per key.
//
// LegacyBloom implements HashPolicy and DirectPolicy. It can be compared with ==.
var LegacyBloom Policy = legacyBloom{}

type legacyBloom struct{}

var (
	_ HashPolicy   = legacyBloom{}
	_ DirectPolicy = legacyBloom{}
)

func (legacyBloom) Name() string { return legacyName }

func (legacyBloom) CreateFilter(dst []byte, keys [][]byte) []byte {
	hashes := make([]uint32, 0, len(keys)+len(keys)/4)
	for _, key := range keys {
		unsigned, signed := splitLegacyHash(legacyHash(key))
		hashes = append(hashes, unsigned)
		if signed != unsigned {
			hashes = append(hashes, signed)
		}
	}
	return appendBloom(dst, hashes, DefaultBitsPerKey)
}

func (p legacyBloom) KeyMayMatch(key, filter []byte) bool {
	return p.HashMayMatchFilter(legacyHash(key), filter)
}

// KeyHash packs both hashes, the unsigned one into the low half.
func (legacyBloom) KeyHash(key []byte) uint64 { return legacyHash(key) }

func (legacyBloom) NewProbe(filter []byte) Probe {
	bits, k, verdict := parseBloom(filter)
	if verdict != testBits {
		return fixedProbe(verdict == alwaysMatch)
	}
	return &legacyProbe{bloom: makeBloomProbe(bits, k)}
}

func (legacyBloom) HashMayMatchFilter(hash uint64, filter []byte) bool {
	bits, k, verdict := parseBloom(filter)
	if verdict != testBits {
		return verdict == alwaysMatch
	}
	unsigned, signed := splitLegacyHash(hash)
	return plainMayMatch(bits, k, unsigned) || signed != unsigned && plainMayMatch(bits, k, signed)
}

// legacyProbe is a bloomProbe that matches either of two hashes.
type legacyProbe struct {
	bloom bloomProbe
}

// HashMayMatch queries once if both hashes are the same. The unsigned hash comes first,
// because goleveldb's directories are more common.
func (p *legacyProbe) HashMayMatch(hash uint64) bool {
	unsigned, signed := splitLegacyHash(hash)
	return p.bloom.HashMayMatch(uint64(unsigned)) ||
		signed != unsigned && p.bloom.HashMayMatch(uint64(signed))
}

// legacyHash returns both hashes of key. For most keys it computes only one.
func legacyHash(key []byte) uint64 {
	unsigned := bloomHash(key)
	signed := unsigned
	if hasHighTail(key) {
		signed = util.HashSignedTail(key, bloomSeed)
	}
	return uint64(signed)<<32 | uint64(unsigned)
}

func splitLegacyHash(hash uint64) (unsigned, signed uint32) { return uint32(hash), uint32(hash >> 32) }

// hasHighTail reports whether one of the last len(key) mod 4 bytes, which the hash reads
// one by one, is negative as a signed char.
func hasHighTail(key []byte) bool {
	var all byte
	for _, c := range key[len(key)&^3:] {
		all |= c
	}
	return all >= 0x80
}
