package rangefilter

import (
	"encoding/binary"
	"fmt"
)

// Number defines how the bytes of a key after its prefix are read as a number, which is the part of the key that a
// Grafite filter stores. Numbers do not decrease in key order. The bytes after the number are ignored. Numbers are
// comparable values; the zero Number is BigEndian(8).
type Number struct {
	decimal bool
	width   int // bytes or digits; 0: 8 bytes
}

// BigEndian reads the first width bytes, at least 1 and at most 8: BigEndian(8) suits
// 8-byte counters and times. A shorter key is extended with zeros.
func BigEndian(width int) Number { return Number{width: min(max(width, 1), 8)} }

// Decimal reads the first digits characters, at least 1 and at most 19, as a decimal number with leading zeros, as
// "%012d" writes it. If the key ends early or has another byte there, the missing digits count as zeros if that byte
// sorts before the digits, as the end of the key does, and as nines if it sorts after them.
func Decimal(digits int) Number { return Number{decimal: true, width: min(max(digits, 1), 19)} }

// Name is part of the name of the filters made with n and never changes: "be8" for eight
// bytes, "dec12" for twelve digits.
func (n Number) Name() string {
	if n.decimal {
		return fmt.Sprintf("dec%d", n.width)
	}
	return fmt.Sprintf("be%d", n.bytes())
}

// bytes returns the number of bytes of a key that the number uses.
func (n Number) bytes() int {
	if n.width == 0 {
		return 8
	}
	return n.width
}

// greatest returns the greatest number.
func (n Number) greatest() uint64 {
	if !n.decimal {
		return 1<<(8*n.bytes()) - 1 // for 8 bytes the shift gives 0, and the result is all ones
	}
	x, _ := n.of([]byte{0xff})
	return x
}

// of returns the number at the start of rest, a key without its prefix. full reports whether
// rest has all bytes or digits of it: then no other rest with this number sorts before them.
func (n Number) of(rest []byte) (x uint64, full bool) {
	if n.decimal {
		x, digits, _ := n.digitsOf(rest)
		return x, digits == n.width
	}
	width := n.bytes()
	if len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest) >> (64 - 8*width), true
	}
	for i := range width {
		x <<= 8
		if i < len(rest) {
			x |= uint64(rest[i])
		}
	}
	return x, len(rest) >= width
}

// below returns the number of an upper bound. exclusive reports whether full keys below the
// bound, with the same prefix, have smaller numbers.
func (n Number) below(rest []byte) (x uint64, exclusive bool) {
	if !n.decimal {
		x, _ = n.of(rest)
		return x, len(rest) <= n.bytes()
	}
	x, digits, nines := n.digitsOf(rest)
	return x, !nines && (digits < n.width || len(rest) == digits)
}

// digitsOf returns the decimal number, how many of its digits are in rest, and whether the
// missing digits count as nines.
func (n Number) digitsOf(rest []byte) (x uint64, digits int, nines bool) {
	for digits < min(n.width, len(rest)) && rest[digits]-'0' <= 9 {
		x = 10*x + uint64(rest[digits]-'0')
		digits++
	}
	fill := uint64(0)
	if nines = digits < min(n.width, len(rest)) && rest[digits] > '9'; nines {
		fill = 9
	}
	for range n.width - digits {
		x = 10*x + fill
	}
	return x, digits, nines
}
