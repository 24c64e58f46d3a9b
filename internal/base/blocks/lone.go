package blocks

import "github.com/sievedb/sievedb/util"

// Lone has a bit for each data block of a table, which is set if the block is lone: it has one entry, whose internal
// key is also the block's separator. Encoded it is
//
//	varint  length of the bits in bytes
//	n       bit i%8 of byte i/8 is that of data block i
//
// and nothing if no block is lone.
type Lone []byte

// maxLone bounds the bits of a table in bytes, which are kept while it is open. Blocks after them are not lone.
const maxLone = 64 << 10

// Has reports whether data block i is lone.
func (l Lone) Has(i int) bool { return i/8 < len(l) && l[i/8]>>(i%8)&1 != 0 }

// With returns l with the bit of block i, which is not before those that l has. It may change l.
func (l Lone) With(i int) Lone {
	if i/8 >= maxLone {
		return l
	}
	for len(l) <= i/8 {
		l = append(l, 0)
	}
	l[i/8] |= 1 << (i % 8)
	return l
}

// Append appends the encoded bits to dst.
func (l Lone) Append(dst []byte) []byte {
	if len(l) == 0 {
		return dst
	}
	return append(util.AppendUvarint64(dst, uint64(len(l))), l...)
}

// DecodeLone reads bits from the front of b, of which it keeps no part. Others than those that Append writes are none:
// a later version may write more there.
func DecodeLone(b []byte) Lone {
	size, n := util.Uvarint64(b)
	if n == 0 || size > min(uint64(len(b)-n), maxLone) {
		return nil
	}
	return append(Lone(nil), b[n:n+int(size)]...)
}
