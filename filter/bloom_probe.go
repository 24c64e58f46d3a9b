package filter

import (
	"math"
	"math/bits"
)

// This file is the hot path: the work for every filter that a lookup checks, and for
// every key that a table's writer adds.

// plainMayMatch tests the k bits of hash h one after the other, as LevelDB's BloomFilterPolicy::KeyMayMatch does. It
// suits single queries. bloomProbe is the fast form of the same function, but computing its reciprocal costs more than
// one query saves (36 keys: 11 ns against 17).
func plainMayMatch(array []byte, k int, h uint32) bool {
	m := uint32(len(array)) * 8
	delta := bits.RotateLeft32(h, -bloomRotate)
	for range k {
		pos := h % m
		if array[pos/8]>>(pos%8)&1 == 0 {
			return false
		}
		h += delta
	}
	return true
}

// reciprocal returns 2^64 / m, rounded up, for a number of bits m. It makes an exact remainder cost two multiplications
// instead of a division, which is slower and cannot overlap with the next one. (Lemire, Kaser, Kurz: "Faster remainder
// by direct computation", 2019, with a 64-bit reciprocal for 32-bit numbers, which is exact for all of them.)
func reciprocal(m uint32) uint64 { return math.MaxUint64/uint64(m) + 1 }

// bitOf returns the byte and the bit within that byte of bit h mod m of a filter, where m = 8 × bytes. The low half of
// inverse × h is the fraction of h/m in units of 2^-64. That fraction times the bytes is the byte, and the upper three
// bits of the remaining fraction are the bit.
func bitOf(h uint32, inverse, bytes uint64) (at, bit uint64) {
	at, rest := bits.Mul64(inverse*uint64(h), bytes)
	return at, rest >> 61
}

// bloomProbe is a well-formed bloom filter with its precomputed reciprocal.
type bloomProbe struct {
	array   []byte
	inverse uint64 // of the number of bits, 8 × len(array)
	k       int    // 1 to maxBloomHashes
}

func makeBloomProbe(array []byte, k int) bloomProbe {
	return bloomProbe{array: array, inverse: reciprocal(uint32(len(array)) * 8), k: k}
}

// HashMayMatch uses the low 32 bits of hash. It tests bits in pairs, with one branch for two bits. For an absent key
// each bit is set or clear with equal probability, so a branch for each bit is mispredicted about once per lookup,
// which costs more than reading a second bit. With pairs, three of four lookups return at the first branch. Testing all
// k bits without a branch is slower again, because it waits for k cache lines. (10 bits per key, 2 MB, absent keys: 10
// ns against 18 for the plain loop, and 16 with the reciprocal alone. Reading without bounds checks gains nothing.)
func (p *bloomProbe) HashMayMatch(hash uint64) bool {
	h := uint32(hash)
	delta := bits.RotateLeft32(h, -bloomRotate)
	array, inverse, bytes := p.array, p.inverse, uint64(len(p.array))
	k := p.k
	for ; k >= 2; k -= 2 {
		a, bitA := bitOf(h, inverse, bytes)
		b, bitB := bitOf(h+delta, inverse, bytes)
		if array[a]>>bitA&(array[b]>>bitB)&1 == 0 {
			return false
		}
		h += 2 * delta
	}
	if k == 0 {
		return true
	}
	at, bit := bitOf(h, inverse, bytes)
	return array[at]>>bit&1 != 0
}

// fixedProbe is a filter whose form alone determines the answer.
type fixedProbe bool

func (p fixedProbe) HashMayMatch(uint64) bool { return bool(p) }

// bloomWriter sets bits in a filter made by appendEmptyBloom.
type bloomWriter struct {
	array   []byte
	inverse uint64 // of the number of bits
	k       int
}

func newBloomWriter(filter []byte) bloomWriter {
	n := len(filter) - 1
	return bloomWriter{array: filter[:n], inverse: reciprocal(uint32(n) * 8), k: int(filter[n])}
}

func (w *bloomWriter) set(h uint32) {
	delta := bits.RotateLeft32(h, -bloomRotate)
	for range w.k {
		at, bit := bitOf(h, w.inverse, uint64(len(w.array)))
		w.array[at] |= 1 << bit
		h += delta
	}
}
