// Package util holds the small codings that every file of a store is made of:
// fixed and variable-length integers, LevelDB's key hash and a 64-bit one, the
// masked CRC-32C, and a search in sorted integers. It knows no files and keeps no
// state; every function is pure and may be called from any goroutine.
//
// # Integers (LevelDB's util/coding.h)
//
// A fixed integer is little-endian, four or eight bytes. A varint has seven
// bits a byte, lowest first; the top bit of a byte says that another follows:
//
//	300 = 0b10_0101100
//
//	+-----------+-----------+
//	| 1 0101100 | 0 0000010 |
//	+-----------+-----------+
//	  more, 44    last, 2        44 + 2<<7 = 300
//
//	coding            bytes    refused when read
//	----------------  -------  -------------------------------------------
//	fixed32, fixed64  4, 8     never: the caller has checked the length
//	varint32          1 to 5   cut short; a sixth byte; bits beyond the 32nd
//	varint64          1 to 10  cut short; an eleventh byte; bits beyond the 64th
//	length-prefixed   1 to 5   the length is refused, or passes the end
//	string            + length
//
// LevelDB drops the excess bits of a fifth or tenth byte where these decoders
// refuse them: no writer makes such bytes, so they are damage. Both accept a
// number in more bytes than it needs (0x80 0x00 is zero).
//
// # Checksums (LevelDB's util/crc32c.h)
//
// A checksum is a CRC-32C (Castagnoli). What stands in a file is its masked
// form, because a CRC over data that holds its own CRC is a weak one:
//
//	masked = rotate right by 15 (crc) + 0xa282ead8, modulo 2^32
package util
