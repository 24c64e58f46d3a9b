package fuse

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// The bytes of a packed array
//
//	+---------+---------+-----+--------+----+-------+
//	| group 0 | group 1 |  …  | number | lg | width |
//	+---------+---------+-----+--------+----+-------+
//
// A group is eight slots in width bytes, which are one little-endian number: slot 0 is its
// lowest width bits. So slot i is the width bits from bit i × width of the array on. The number
// of slots is a multiple of 2^lg, and at least four times as many.
//
// The end of the array is followed by four bytes or more, so that a slot can be read as part of
// four bytes: these are the three above and at least one of the format around it.

// MaxWidth is the largest number of bits of a slot: with the 7 bits before it in its first byte it fits in 32.
const MaxWidth = 16

const (
	packedTailBytes = 3 // number, lg, width
	loadBytes       = 4 // a slot is read as part of so many bytes
)

// MaxPackedKeys returns the largest number of keys of an array of this width, so that it is smaller than two gigabytes.
func MaxPackedKeys(width uint) int { return MaxKeys / int(max(width, 8)) * 8 }

// PackedShape returns the shape for that many keys at the given try: that of ShapeFor, with more
// segments if its slots are not whole groups of eight.
func PackedShape(keys int, try uint8) Shape {
	s := ShapeFor(keys, try)
	if s.Lg < 3 {
		s.Span += -s.Slots() & 7
	}
	return s
}

// PackedSize returns the size in bytes of an array of that shape, with its tail.
func PackedSize(s Shape, width uint) uint64 { return s.Slots()/8*uint64(width) + packedTailBytes }

// Packed is a well-formed array.
type Packed struct {
	first unsafe.Pointer // the first of the slots, which at least four bytes follow
	shape Shape
	width uint32
}

func packed(array []byte, shape Shape, width uint32) Packed {
	if uint64(len(array)) < shape.Slots()/8*uint64(width)+loadBytes {
		panic("fuse: an array is too small for its shape")
	}
	return Packed{first: unsafe.Pointer(unsafe.SliceData(array)), shape: shape, width: width}
}

// ParsePacked returns the array in b, which is followed by one byte or more, end. ok is false for
// bytes that no writer makes.
func ParsePacked(b []byte, end int) (p Packed, ok bool) {
	n := len(b) - end - packedTailBytes
	if n < 0 || end < loadBytes-packedTailBytes {
		return p, false
	}
	number, lg, width := b[n], b[n+1], uint(b[n+2])
	if width < 1 || width > MaxWidth || n%int(width) != 0 {
		return p, false
	}
	shape, ok := ShapeOf(uint64(n)/uint64(width)*8, lg, number)
	if !ok {
		return p, false
	}
	return packed(b, shape, uint32(width)), true
}

// Width returns the number of bits of a slot.
func (p *Packed) Width() uint { return uint(p.width) }

// load returns slot i in the lowest bits, and what follows it above them.
func (p *Packed) load(i uint64) uint32 {
	at := i * uint64(p.width)
	return binary.LittleEndian.Uint32(p.four(at >> 3)[:]) >> (at & 7)
}

// four returns the four bytes from byte i on, in which a slot begins. It checks nothing, which saves a
// quarter of a probe's instructions: the shape keeps all slots below Slots, and the function packed has
// checked that the array has that many slots and four bytes more.
func (p *Packed) four(i uint64) *[loadBytes]byte {
	return (*[loadBytes]byte)(unsafe.Add(p.first, i))
}

// value returns the xor of the four slots of a mixed key in the lowest bits, and other bits above
// them. It loads the slots at the same time and has no branch.
func (p *Packed) value(mixed uint64) uint32 {
	a, b, c, d := p.shape.Places(mixed)
	return p.load(a) ^ p.load(b) ^ p.load(c) ^ p.load(d)
}

// same reports whether two values have the same lowest bits, as many as a slot has.
func (p *Packed) same(v, w uint32) bool { return (v^w)<<((32-p.width)&31) == 0 }

// Fingerprint is the value of a mixed key in a filter, in its lowest bits.
func Fingerprint(mixed uint64) uint32 { return uint32(mixed * Golden >> 32) }

// Fingerprints returns Fingerprint: the values of the keys of a filter, whatever its shape.
func Fingerprints(Shape) func(mixed uint64) uint32 { return Fingerprint }

// HashMayMatch reports whether the value of the key with this hash is its fingerprint. The slots are
// not read by value, which the compiler would call.
func (p *Packed) HashMayMatch(hash uint64) bool {
	mixed := p.shape.Mix(hash)
	a, b, c, d := p.shape.Places(mixed)
	return p.same(p.load(a)^p.load(b)^p.load(c)^p.load(d), Fingerprint(mixed))
}

// set sets slot i, which is 0, to the lowest bits of value.
func (p *Packed) set(i uint64, value uint32) {
	at := i * uint64(p.width)
	four := p.four(at >> 3)[:]
	value &= 1<<p.width - 1
	binary.LittleEndian.PutUint32(four, binary.LittleEndian.Uint32(four)|value<<(at&7))
}

// AppendPacked appends to dst an array in which the xor of the slots of each key with one of these
// hashes is the lowest bits of values(shape)(mixed), and returns the distinct hashes, which it may sort.
// After the given number of tries it gives up: ok is false, and nothing is appended.
func (s *Solver) AppendPacked(
	dst []byte, hashes []uint64, width uint, tries int, values func(Shape) func(mixed uint64) uint32,
) (extended []byte, distinct []uint64, ok bool) {
	start := len(dst)
	if len(hashes) > MaxPackedKeys(width) {
		return dst, hashes, false
	}
	shape, number, hashes, ok := s.Try(hashes, tries, PackedShape)
	if !ok {
		return dst, hashes, false
	}
	n := int(shape.Slots() / 8 * uint64(width))
	dst = slices.Grow(dst, n+loadBytes)[:start+n+loadBytes]
	clear(dst[start:])
	value := values(shape)
	p := packed(dst[start:], shape, uint32(width))
	for _, at := range slices.Backward(s.taken) {
		mixed := s.sum[at]
		p.set(uint64(at), value(mixed)^p.value(mixed)) // the slot is 0
	}
	return append(dst[:start+n], number, uint8(shape.Lg), uint8(width)), hashes, true
}
