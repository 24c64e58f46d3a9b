package command

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"strconv"
)

// A dump is what DUMP returns and RESTORE accepts, as Redis writes it (rdb.h and createDumpPayload of Redis 7.0):
//
//	type      1 byte   0: a string
//	string             see below
//	version   2 bytes  of the format, little-endian
//	checksum  8 bytes  CRC-64 (Jones) of all bytes before it, little-endian
//
// A string begins with a length, whose first two bits say how long it is itself. 3 in these bits means that a number or
// a compressed string follows instead:
//
//	00xxxxxx                     a length of 6 bits; then the bytes
//	01xxxxxx 1 byte              a length of 14 bits, big-endian
//	10000000 4 bytes             a length of 32 bits, big-endian
//	10000001 8 bytes             a length of 64 bits, big-endian
//	11000000 1 byte              a number of 8 bits
//	11000001 2 bytes             a number of 16 bits, little-endian
//	11000010 4 bytes             a number of 32 bits, little-endian
//	11000011 length length bytes the compressed length, the other length, and what LZF has compressed
//
// The value "hello" is 00 05 68 65 6c 6c 6f 09 00 and the checksum b3 80 8e ba 31 b2 43 bb.
const (
	rdbString     = 0
	rdbFooter     = 2 + 8
	rdbVersion    = 9  // that of Redis 5.0: later ones read it
	rdbMaxVersion = 12 // that of Redis 8.0; strings have been the same in all versions
)

const (
	rdbLength32 = 0x80
	rdbLength64 = 0x81
	rdbInt8     = 0xc0
	rdbInt16    = 0xc1
	rdbInt32    = 0xc2
	rdbLZF      = 0xc3
)

// rdbTable is the table of the CRC with Jones's polynomial. Redis neither begins nor ends with an inversion, as the
// functions of hash/crc64 do.
var rdbTable = crc64.MakeTable(0x95ac9329ac4bc9b5)

func rdbChecksum(b []byte) uint64 { return ^crc64.Update(^uint64(0), rdbTable, b) }

var (
	errDumpChecksum = errors.New("ERR DUMP payload version or checksum are wrong")
	errDumpFormat   = errors.New("ERR Bad data format")
	errDumpType     = errors.New("ERR Bad data format: the value is not a string, and other values are not supported")
	errDumpLength   = errors.New(errTooLong)
)

// appendDump appends the dump of a value. It compresses nothing.
func appendDump(to, value []byte) []byte {
	start := len(to)
	to = append(to, rdbString)
	if n, ok := ParseInt(value); ok && len(value) <= 11 && n == int64(int32(n)) {
		to = appendDumpInt(to, n)
	} else {
		to = append(appendDumpLength(to, uint64(len(value))), value...)
	}
	to = binary.LittleEndian.AppendUint16(to, rdbVersion)
	return binary.LittleEndian.AppendUint64(to, rdbChecksum(to[start:]))
}

func appendDumpInt(to []byte, n int64) []byte {
	switch {
	case n == int64(int8(n)):
		return append(to, rdbInt8, byte(n))
	case n == int64(int16(n)):
		return binary.LittleEndian.AppendUint16(append(to, rdbInt16), uint16(n))
	}
	return binary.LittleEndian.AppendUint32(append(to, rdbInt32), uint32(n))
}

func appendDumpLength(to []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(to, byte(n))
	case n < 1<<14:
		return append(to, byte(n>>8)|1<<6, byte(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(to, rdbLength32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(to, rdbLength64), n)
}

// parseDump returns the value of a dump, which has at most limit bytes. The value may be a part of dump. The text of an
// error is the reply of RESTORE.
func parseDump(dump []byte, limit int) ([]byte, error) {
	if len(dump) < rdbFooter {
		return nil, errDumpChecksum
	}
	body, footer := dump[:len(dump)-rdbFooter], dump[len(dump)-rdbFooter:]
	version, sum := binary.LittleEndian.Uint16(footer), binary.LittleEndian.Uint64(footer[2:])
	switch {
	case version > rdbMaxVersion || sum != rdbChecksum(dump[:len(dump)-8]):
		return nil, errDumpChecksum
	case len(body) == 0:
		return nil, errDumpFormat
	case body[0] != rdbString:
		return nil, errDumpType
	}
	return parseDumpString(body[1:], limit)
}

func parseDumpString(b []byte, limit int) ([]byte, error) {
	if len(b) == 0 {
		return nil, errDumpFormat
	}
	switch b[0] {
	case rdbInt8, rdbInt16, rdbInt32:
		return parseDumpInt(b)
	case rdbLZF:
		return parseDumpLZF(b[1:], limit)
	}
	n, rest, ok := parseDumpLength(b)
	switch {
	case !ok || n != uint64(len(rest)):
		return nil, errDumpFormat
	case n > uint64(limit):
		return nil, errDumpLength
	}
	return rest, nil
}

func parseDumpInt(b []byte) ([]byte, error) {
	var n int64
	switch {
	case b[0] == rdbInt8 && len(b) == 2:
		n = int64(int8(b[1]))
	case b[0] == rdbInt16 && len(b) == 3:
		n = int64(int16(binary.LittleEndian.Uint16(b[1:])))
	case b[0] == rdbInt32 && len(b) == 5:
		n = int64(int32(binary.LittleEndian.Uint32(b[1:])))
	default:
		return nil, errDumpFormat
	}
	return strconv.AppendInt(nil, n, 10), nil
}

func parseDumpLength(b []byte) (n uint64, rest []byte, ok bool) {
	switch {
	case len(b) >= 1 && b[0]>>6 == 0:
		return uint64(b[0]), b[1:], true
	case len(b) >= 2 && b[0]>>6 == 1:
		return uint64(b[0]&0x3f)<<8 | uint64(b[1]), b[2:], true
	case len(b) >= 5 && b[0] == rdbLength32:
		return uint64(binary.BigEndian.Uint32(b[1:])), b[5:], true
	case len(b) >= 9 && b[0] == rdbLength64:
		return binary.BigEndian.Uint64(b[1:]), b[9:], true
	}
	return 0, nil, false
}

func parseDumpLZF(b []byte, limit int) ([]byte, error) {
	packed, b, ok := parseDumpLength(b)
	if !ok {
		return nil, errDumpFormat
	}
	length, b, ok := parseDumpLength(b)
	switch {
	case !ok || packed != uint64(len(b)):
		return nil, errDumpFormat
	case length > uint64(limit):
		return nil, errDumpLength
	}
	value, ok := unpackLZF(b, int(length))
	if !ok {
		return nil, errDumpFormat
	}
	return value, nil
}

// The parts of LZF, as in lzf_d.c of liblzf: the first byte is below 32 and is followed by as many bytes, and one more;
// or it has a length in its upper 3 bits and a distance in the lower 5, which goes on in the last byte. 7 as a length
// goes on in a byte before that.
const (
	lzfLiteral  = 1 << 5
	lzfLongest  = 7
	lzfMinMatch = 2
	// lzfGrowth is more than what a byte can become: three are at most 264.
	lzfGrowth = 88
)

// unpackLZF returns the length bytes that LZF has compressed; ok is false if it did not. It allocates no more than
// packed can become.
func unpackLZF(packed []byte, length int) (value []byte, ok bool) {
	if length > lzfGrowth*len(packed) {
		return nil, false
	}
	value = make([]byte, 0, length)
	for len(packed) > 0 {
		control := int(packed[0])
		packed = packed[1:]
		if control < lzfLiteral {
			n := control + 1
			if n > len(packed) || n > length-len(value) {
				return nil, false
			}
			value, packed = append(value, packed[:n]...), packed[n:]
			continue
		}
		n, distance := control>>5, control&(lzfLiteral-1)<<8
		if n == lzfLongest && len(packed) > 0 {
			n += int(packed[0])
			packed = packed[1:]
		}
		if len(packed) == 0 {
			return nil, false
		}
		distance += int(packed[0]) + 1
		packed, n = packed[1:], n+lzfMinMatch
		if distance > len(value) || n > length-len(value) {
			return nil, false
		}
		for from := len(value) - distance; n > 0; n-- { // they may overlap
			value = append(value, value[from])
			from++
		}
	}
	return value, len(value) == length
}
