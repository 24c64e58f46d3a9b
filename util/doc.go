// Package util contains the encodings that all files of a store use: fixed and variable-length
// integers, LevelDB's key hash and a 64-bit hash, the masked CRC-32C, and a search in sorted
// integers. It keeps no state; all functions are pure and safe for concurrent use.
//
// # Integers (LevelDB's util/coding.h)
//
// A fixed integer is little-endian, four or eight bytes long. A varint has seven bits per byte,
// lowest first; the top bit of a byte says that another byte follows:
//
//	300 = 0b10_0101100
//
//	+-----------+-----------+
//	| 1 0101100 | 0 0000010 |
//	+-----------+-----------+
//	  more, 44    last, 2        44 + 2<<7 = 300
//
//	coding            bytes    invalid when read
//	----------------  -------  -------------------------------------------
//	fixed32, fixed64  4, 8     never: the caller has checked the length
//	varint32          1 to 5   truncated; a sixth byte; bits beyond the 32nd
//	varint64          1 to 10  truncated; an eleventh byte; bits beyond the 64th
//	length-prefixed   1 to 5   the length is invalid, or exceeds the remaining bytes
//	string            + length
//
// LevelDB drops the excess bits of a fifth or tenth byte. These decoders reject them: no writer makes such bytes, so
// they are damage. Both accept a number in more bytes than necessary (0x80 0x00 is zero).
//
// # Checksums (LevelDB's util/crc32c.h)
//
// A checksum is a CRC-32C (Castagnoli). Files contain its masked form, because a CRC over data
// that contains its own CRC is weak:
//
//	masked = rotate right by 15 (crc) + 0xa282ead8, modulo 2^32
package util
