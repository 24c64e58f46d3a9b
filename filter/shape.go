package filter

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/sievedb/sievedb/internal/base/fuse"
)

// A Shape is the information in the bytes of a filter: enough to predict its
// false-positive rate, and to estimate the number of its keys.
type Shape struct {
	Bits   uint64 // the size of the bit array; for binary fuse filters that of all slots
	Set    uint64 // how many of the bits are ones
	Hashes int    // k, the number of positions of a key
	// HashBits is the width of the hash: the filter cannot distinguish keys with the
	// same hash. LevelDB's hash has 32 bits.
	HashBits int

	lines uint64 // of a cache-line filter
	// slotBits is the size of a slot of a binary fuse filter, otherwise 0.
	slotBits int
}

// ShapeOf returns the shape of a filter of p, or of the first of its Kinds. ok is false for
// policies of other packages, and for filters whose bits p does not test: those of later
// versions, and those that match all or no keys. It reads the whole filter.
func ShapeOf(p Policy, filter []byte) (s Shape, ok bool) {
	switch hashOf(firstKind(p)) {
	case levelDBHash, legacyHashes:
		array, k, verdict := parseBloom(filter)
		return Shape{Bits: uint64(len(array)) * 8, Set: ones(array), Hashes: k, HashBits: 32}, verdict == testBits
	case xxh3Hash:
		if _, ok := firstKind(p).(FusePolicy); ok {
			slots, slotBits, ok := slotsOfFuse(filter)
			return Shape{
				Bits: uint64(len(slots)) * 8, Set: ones(slots), Hashes: fuse.Arity, HashBits: 64, slotBits: slotBits,
			}, ok
		}
		probe, verdict := parseCacheLine(filter)
		return probe.Shape(), verdict == testBits
	}
	return Shape{}, false
}

// Shape returns the result of ShapeOf for the filter. It reads the whole filter.
func (p *CacheLineProbe) Shape() Shape {
	return Shape{Bits: uint64(len(p.array)) * 8, Set: ones(p.array), Hashes: p.k, HashBits: 64, lines: p.lines}
}

func firstKind(p Policy) Policy {
	if kinds := Kinds(p); len(kinds) > 0 {
		return kinds[0]
	}
	return None
}

func ones(array []byte) (n uint64) {
	for ; len(array) >= 8; array = array[8:] {
		n += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(array)))
	}
	for _, b := range array {
		n += uint64(bits.OnesCount8(b))
	}
	return n
}

// Fill returns the fraction of the bits that are ones, 0 to 1. It is about 0.5 for a bloom filter with the best k; near
// 1 the filter rules out almost nothing. For a binary fuse filter it is about 0.5 whatever the keys.
func (s Shape) Fill() float64 {
	if s.Bits == 0 {
		return 0
	}
	return float64(s.Set) / float64(s.Bits)
}

// EstimatedKeys returns an estimate of the number of distinct keys in the filter, from its ones: n keys leave e^(-kn/m)
// of m bits clear (Swamidass and Baldi, "Mathematical Correction for Fingerprint Similarity Measures", 2007). Its error
// is a few percent if there are hundreds of keys. It is math.MaxUint64 if no bit is clear. For binary fuse filters,
// whose ones do not depend on the number of keys, it is the largest number of keys in a filter of this size.
func (s Shape) EstimatedKeys() uint64 {
	switch {
	case s.slotBits > 0:
		return keysOfFuse(s.Bits / uint64(s.slotBits))
	case s.Bits == 0 || s.Hashes == 0:
		return 0
	case s.Set >= s.Bits:
		return math.MaxUint64
	}
	places, regions := float64(s.Bits), 1.0
	if s.lines > 0 {
		places, regions = lineBits, float64(s.lines)
	}
	// perKey is the logarithm of the probability that a key leaves a given bit of its
	// region clear. Keys are spread unevenly over cache lines (Poisson).
	perKey := float64(s.Hashes) * math.Log1p(-1/places)
	if s.lines > 0 {
		perKey = math.Expm1(perKey)
	}
	return uint64(math.Round(math.Log1p(-s.Fill()) / perKey * regions))
}

// PredictedRate returns the expected false-positive rate, 0 to 1, of the filter if it has
// the given number of distinct keys. For LevelDB's layout it is that of the function
// PredictedRate; otherwise CacheLineFalsePositiveRate or 2^-b for slots of b bits, combined with SameHashRate.
func (s Shape) PredictedRate(keys uint64) float64 {
	var rate float64
	switch {
	case keys == 0:
		return 0
	case s.slotBits > 0:
		rate = math.Ldexp(1, -s.slotBits)
	case s.lines > 0:
		rate = CacheLineFalsePositiveRate(keys, s.lines, s.Hashes)
	default:
		return levelDBRate(keys, s.Bits, s.Hashes)
	}
	sameHash := SameHashRate(keys, s.HashBits)
	return sameHash + (1-sameHash)*rate
}
