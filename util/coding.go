package util

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	// MaxVarint32Len is the largest number of bytes of a 32-bit varint.
	MaxVarint32Len = 5
	// MaxVarint64Len is the largest number of bytes of a 64-bit varint.
	MaxVarint64Len = 10
)

// AppendFixed32 appends the four bytes of v to dst, little-endian.
func AppendFixed32(dst []byte, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(dst, v)
}

// AppendFixed64 appends the eight bytes of v to dst, little-endian.
func AppendFixed64(dst []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, v)
}

// PutFixed32 overwrites the first four bytes of b with v, little-endian. It
// panics when b is shorter.
func PutFixed32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

// PutFixed64 overwrites the first eight bytes of b with v, little-endian. It
// panics when b is shorter.
func PutFixed64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }

// Fixed32 reads the first four bytes of b, little-endian. The caller has
// checked that b has them; it panics otherwise.
func Fixed32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// Fixed64 reads the first eight bytes of b, little-endian. The caller has
// checked that b has them; it panics otherwise.
func Fixed64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// AppendUvarint32 appends v to dst as a varint of one to five bytes.
func AppendUvarint32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// AppendUvarint64 appends v to dst as a varint of one to ten bytes.
func AppendUvarint64(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// UvarintLen returns the number of bytes that AppendUvarint64 appends for v
// (and AppendUvarint32, where v fits it).
func UvarintLen(v uint64) int {
	// Seven bits a byte, rounded up; v|1 because zero takes a byte too.
	return (bits.Len64(v|1) + 6) / 7
}

// Uvarint32 decodes the varint at the start of b and returns it with the
// number of bytes it took, which is never more than len(b). n is 0 (and so is
// v) when b ends within the varint, when the varint is longer than five bytes,
// or when its value does not fit 32 bits.
func Uvarint32(b []byte) (v uint32, n int) {
	// Most lengths in a block are below 128. Written this way round, and with a
	// loop behind it that the compiler inlines too, the whole stays just within
	// the budget for inlining: half the time of a call (0.8 against 1.7 ns).
	if len(b) > 0 {
		v, n = uint32(b[0]), 1
	}
	if v >= 0x80 {
		v, n = uvarint32Loop(b)
	}
	return
}

func uvarint32Loop(b []byte) (v uint32, n int) {
	var shift uint
	for i, c := range b {
		if c < 0x80 {
			if shift == 28 && c > math.MaxUint32>>28 {
				break // a 33rd bit
			}
			return v | uint32(c)<<shift, i + 1
		}
		v |= uint32(c&0x7f) << shift
		if shift += 7; shift > 28 {
			break // a sixth byte
		}
	}
	return 0, 0
}

// Uvarint64 decodes the varint at the start of b, as Uvarint32 does, of up to
// ten bytes and 64 bits.
func Uvarint64(b []byte) (v uint64, n int) {
	if len(b) > 0 {
		v, n = uint64(b[0]), 1
	}
	if v >= 0x80 {
		v, n = uvarint64Loop(b)
	}
	return
}

func uvarint64Loop(b []byte) (v uint64, n int) {
	var shift uint
	for i, c := range b {
		if c < 0x80 {
			if shift == 63 && c > math.MaxUint64>>63 {
				break // a 65th bit
			}
			return v | uint64(c)<<shift, i + 1
		}
		v |= uint64(c&0x7f) << shift
		if shift += 7; shift > 63 {
			break // an eleventh byte
		}
	}
	return 0, 0
}

// AppendLengthPrefixed appends the length of s as a varint32, then s, to dst.
// The file formats have no longer strings than 4 GiB - 1 byte; callers bound
// keys and values before they come here, and a longer s panics.
func AppendLengthPrefixed(dst, s []byte) []byte {
	if uint64(len(s)) > math.MaxUint32 {
		panic("util: AppendLengthPrefixed: string longer than 4 GiB - 1 byte")
	}
	return append(AppendUvarint32(dst, uint32(len(s))), s...)
}

// LengthPrefixed splits b into the length-prefixed string at its start and
// what follows. Both share b's memory; s has no spare capacity, so that an
// append to it cannot overwrite rest. ok is false, and s and rest are nil, when
// the length is malformed or larger than what follows it.
func LengthPrefixed(b []byte) (s, rest []byte, ok bool) {
	length, n := Uvarint32(b)
	if n == 0 {
		return nil, nil, false
	}
	b = b[n:]
	if uint64(length) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:length:length], b[length:], true
}
