package filter

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A Shape is what the bytes of a filter tell about it: enough to predict how often
// it errs, and to guess for how many keys it was made.
type Shape struct {
	Bits   uint64 // places for the bits of keys; 8 for each slot of a binary fuse filter
	Set    uint64 // how many of them are ones
	Hashes int    // k, the places of a key
	// HashBits is the width of the hash: two keys of one hash are the same to the
	// filter. LevelDB's has 32.
	HashBits int

	lines uint64 // of a cache-line filter
	fuse  bool
}

// ShapeOf takes apart a filter of p, which counts as the first of its Kinds. It is
// false for policies from elsewhere, and for bytes that p does not ask bit by bit:
// those of later versions, or filters that pass or deny every key. It reads all of
// the filter.
func ShapeOf(p Policy, filter []byte) (s Shape, ok bool) {
	switch hashOf(firstKind(p)) {
	case levelDBHash, legacyHashes:
		array, k, verdict := parseBloom(filter)
		return Shape{Bits: uint64(len(array)) * 8, Set: ones(array), Hashes: k, HashBits: 32}, verdict == askBits
	case xxh3Hash:
		if _, fuse := firstKind(p).(FusePolicy); fuse {
			probe, ok := parseFuse(filter)
			return Shape{Bits: uint64(len(probe.array)) * 8, Set: ones(probe.array), Hashes: fuseArity, HashBits: 64, fuse: true}, ok
		}
		probe, verdict := parseCacheLine(filter)
		return probe.Shape(), verdict == askBits
	}
	return Shape{}, false
}

// Shape returns what ShapeOf returns for the filter. It reads all of the filter.
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

// Fill returns the part of the bits that are ones, 0 to 1. A bloom filter of the best
// k has about half; near one it passes nearly everything. A binary fuse filter has
// about half whatever it holds.
func (s Shape) Fill() float64 {
	if s.Bits == 0 {
		return 0
	}
	return float64(s.Set) / float64(s.Bits)
}

// EstimatedKeys returns about how many distinct keys the filter was made of, from the
// ones in it: n keys leave e^(-kn/m) of m bits clear (Swamidass and Baldi,
// "Mathematical Correction for Fingerprint Similarity Measures", 2007). It is within
// a few parts in a hundred where there are hundreds of keys, and math.MaxUint64 where
// no bit is clear. For binary fuse filters, whose ones do not tell, it is what a
// filter of this size holds at most.
func (s Shape) EstimatedKeys() uint64 {
	switch {
	case s.fuse:
		return uint64(float64(s.Bits/8) / 1.0625)
	case s.Bits == 0 || s.Hashes == 0:
		return 0
	case s.Set >= s.Bits:
		return math.MaxUint64
	}
	places, regions := float64(s.Bits), 1.0
	if s.lines > 0 {
		places, regions = lineBits, float64(s.lines)
	}
	// The logarithm of the chance that a key leaves a given bit of its region clear,
	// and how many keys a region got; in cache lines they are spread unevenly (Poisson).
	perKey := float64(s.Hashes) * math.Log1p(-1/places)
	if s.lines > 0 {
		perKey = math.Expm1(perKey)
	}
	return uint64(math.Round(math.Log1p(-s.Fill()) / perKey * regions))
}

// PredictedRate returns the false-positive rate, 0 to 1, to expect of the filter if it
// was made of the given number of distinct keys: for LevelDB's layout as the function
// PredictedRate tells, else by CacheLineFalsePositiveRate or 1/256, with SameHashRate.
func (s Shape) PredictedRate(keys uint64) float64 {
	var rate float64
	switch {
	case keys == 0:
		return 0
	case s.fuse:
		rate = 1.0 / 256
	case s.lines > 0:
		rate = CacheLineFalsePositiveRate(keys, s.lines, s.Hashes)
	default:
		return levelDBRate(keys, s.Bits, s.Hashes)
	}
	sameHash := SameHashRate(keys, s.HashBits)
	return sameHash + (1-sameHash)*rate
}
