package util

import (
	"hash/crc32"
	"math/bits"
)

// castagnoli is the standard library's table, which stands for the processor's
// CRC-32C instruction where there is one.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskDelta is part of every checksum on disk and never changes.
const maskDelta = 0xa282ead8

// CRC32C returns the CRC-32C (Castagnoli) of b.
func CRC32C(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// ExtendCRC32C returns the CRC-32C of the bytes that crc was computed over
// followed by b, so that a checksum over parts needs no copy of them.
func ExtendCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// MaskCRC returns the form of crc that is stored in files.
func MaskCRC(crc uint32) uint32 { return bits.RotateLeft32(crc, -15) + maskDelta }

// UnmaskCRC is the inverse of MaskCRC.
func UnmaskCRC(masked uint32) uint32 { return bits.RotateLeft32(masked-maskDelta, 15) }
