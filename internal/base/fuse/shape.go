package fuse

import "math/bits"

// These reach the disk and never change. Three slots a key would use 9.8 bits a key instead of
// 9.4 at 18,000 keys with slots of 8 bits, and 9.0 instead of 8.5 at a million.
const (
	// Arity is the number of slots of a key, in as many adjacent segments.
	Arity = 4
	// MaxLg is the largest Lg.
	MaxLg = 16
	// Golden is 2^64 divided by the golden ratio.
	Golden = 0x9e3779b97f4a7c15
)

// MaxKeys keeps an array of bytes below two gigabytes, the limit of a slice on 32-bit machines,
// whatever the number of tries.
const MaxKeys = 1 << 29

// Shape is the layout of the slots. It determines the slots of a key.
type Shape struct {
	Span uint64 // a key's first slot is below it; a positive multiple of 1<<Lg
	Lg   uint   // log2 of the slots of a segment, at most MaxLg
	Mul  uint64 // odd; another multiplier gives another array of the same keys
}

// Multiplier returns the multiplier with the given number.
func Multiplier(number uint8) uint64 { return Golden * (2*uint64(number) + 1) }

// ShapeFor returns the shape for that many keys, at most MaxKeys, at the given try. Readers derive it from the array.
//
// Both the segment size, 2^(0.6 log2 keys), and the slots per key are fitted to the smallest number of slots, over all
// segment sizes, with which nine of ten sets of random keys are solved at the first try, for ten to ten million keys.
func ShapeFor(keys int, try uint8) Shape {
	n := uint64(max(keys, 1))
	halves := uint64(bits.Len64(n*n)) - 1 // in half octaves: 2 log2 n, rounded down
	lg := min((3*halves+5)/10, MaxLg)
	spare := uint64(64) // slots in addition to one per key, in 1024ths
	if 11000/(halves+1) > 208+spare {
		spare = 11000/(halves+1) - 208
	}
	slots := n + (n*spare+1023)/1024
	slots += slots * uint64(try) / 32
	segments := max((slots+1<<lg-1)>>lg, Arity)
	return Shape{Span: (segments - Arity + 1) << lg, Lg: uint(lg), Mul: Multiplier(try)}
}

// ShapeOf returns the shape of an array of that many slots. ok is false if there is none: a
// segment too large, or slots that are not at least four whole segments.
func ShapeOf(slots uint64, lg, number uint8) (s Shape, ok bool) {
	if lg > MaxLg || slots&(1<<lg-1) != 0 || slots>>lg < Arity {
		return s, false
	}
	return Shape{Span: slots - (Arity-1)<<lg, Lg: uint(lg), Mul: Multiplier(number)}, true
}

// Slots returns the number of slots: Span and three more segments, for the other slots of
// the keys whose first slot is in the last segment of Span.
func (s Shape) Slots() uint64 { return s.Span + (Arity-1)<<s.Lg }

// Mix returns the bits of a key that choose its slots and its value. They are both
// halves of a product, so that another multiplier chooses different slots.
func (s Shape) Mix(hash uint64) uint64 {
	hi, lo := bits.Mul64(hash, s.Mul)
	return hi ^ lo
}

// Places returns a mixed key's slots, each in a different segment. Keys with similar upper bits have slots near each
// other, which lets the array be small: such systems of equations can be solved when nearly all slots are used.
func (s Shape) Places(mixed uint64) (a, b, c, d uint64) {
	size := uint64(1) << (s.Lg % 64)
	a, _ = bits.Mul64(mixed, s.Span)
	b = (a + size) ^ mixed>>32&(size-1)
	c = (a + 2*size) ^ mixed>>16&(size-1)
	d = (a + 3*size) ^ mixed&(size-1)
	return a, b, c, d
}
