package wal

import (
	"hash/crc32"
	"math/bits"
	"sync"

	"github.com/sievedb/sievedb/util"
)

// A CRC is the remainder of the message, a polynomial over GF(2), divided by a fixed polynomial. Here the lowest bit of
// a word is the highest power, as CRC-32C is defined: 1<<31 is the polynomial 1, and castagnoli is x^32. Appending a
// zero byte multiplies by x^8, and the remainder of a sum is the sum (exclusive or) of the remainders. That gives two
// things that would cost too much by recomputing checksums: the checksum of any piece of a block from the sums at its
// two ends, and the position of the one bit that explains a wrong checksum.

// castagnoli is x^32 modulo the polynomial of CRC-32C.
const castagnoli = crc32.Castagnoli

var castagnoliTable = crc32.MakeTable(castagnoli)

// appendByte returns the remainder of a message with b appended, given that of the message:
// CRC-32C without the inversions at its beginning and end.
func appendByte(rem uint32, b byte) uint32 {
	return castagnoliTable[byte(rem)^b] ^ rem>>8
}

// zeroPowers returns x^(8n) for every n up to the length of a block, the factor by which
// appending n zero bytes multiplies.
var zeroPowers = sync.OnceValue(func() []uint32 {
	powers := make([]uint32, blockSize+1)
	powers[0] = 1 << 31
	for i := range blockSize {
		powers[i+1] = appendByte(powers[i], 0)
	}
	return powers
})

// multiply returns the product of a and b modulo the polynomial of CRC-32C.
func multiply(a, b uint32) uint32 {
	var p uint32
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ castagnoli&-(b&1)
	}
	return p
}

// sums are the remainders of every prefix of a block. The checksum of any piece follows from
// them by one multiplication.
type sums struct {
	running []uint32 // running[i] is the remainder of the first i bytes
}

func (s *sums) made() bool { return len(s.running) > 0 }

// make computes the sums of data, which holds at most a block.
func (s *sums) make(data []byte) {
	if cap(s.running) <= len(data) {
		s.running = make([]uint32, 0, len(data)+1)
	}
	s.running = s.running[:len(data)+1]
	var rem uint32
	s.running[0] = 0
	for i, b := range data {
		rem = appendByte(rem, b)
		s.running[i+1] = rem
	}
}

// crc returns the CRC-32C of bytes i to j. Its register begins with all ones instead of the
// remainder up to i; the multiplication carries the difference of the two through the piece.
func (s *sums) crc(i, j int) uint32 {
	return ^(multiply(^s.running[i], zeroPowers()[j-i]) ^ s.running[j])
}

// flippedBit returns which byte of b, counted from the beginning of the chunk, contains the one
// bit whose flip would make a valid chunk at the beginning of b, and -1 if no single bit does. b
// reaches to the end of the block or of the log.
//
// Bytes that were never written, or that come from elsewhere, are one bit from a valid chunk
// with a chance of at most one in 2^14 (2^18 bits, 2^32 checksums).
func flippedBit(b []byte) int {
	if len(b) < headerSize {
		return -1
	}
	n := storedLen(b)
	if headerSize+n <= len(b) {
		if at := flippedInBody(b[:headerSize+n]); at >= 0 {
			return at
		}
	}
	if kind := b[6]; kind == kindZero || kind > kindLast {
		return -1
	}
	for bit := range 16 {
		m := n ^ 1<<bit
		if headerSize+m <= len(b) && util.MaskCRC(util.CRC32C(b[6:headerSize+m])) == util.Fixed32(b) {
			return 4 + bit/8
		}
	}
	return -1
}

// flippedInBody is flippedBit for a chunk whose length is right: the bit is in the checksum, the kind or the payload.
func flippedInBody(c []byte) int {
	stored, body := util.Fixed32(c), c[headerSize-1:]
	crc := util.CRC32C(body)
	validKind := body[0] != kindZero && body[0] <= kindLast
	if diff := util.MaskCRC(crc) ^ stored; bits.OnesCount32(diff) == 1 && validKind {
		return bits.TrailingZeros32(diff) / 8
	}
	// A bit t positions before the end of the message changes its remainder by x^(32+t).
	want, power := crc^util.UnmaskCRC(stored), uint32(castagnoli)
	for t := range 8 * len(body) {
		if power == want {
			at := len(body) - 1 - t/8
			if at == 0 {
				if kind := body[0] ^ 0x80>>(t%8); kind == kindZero || kind > kindLast {
					return -1
				}
			}
			return headerSize - 1 + at
		}
		power = power>>1 ^ castagnoli&-(power&1)
	}
	return -1
}
