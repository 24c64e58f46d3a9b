package util

import (
	"hash/crc32"
	"math/bits"
)

// castagnoli is the standard library's table. With it, package crc32 uses the processor's CRC-32C
// instruction if there is one.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskDelta is part of every checksum on disk and never changes.
const maskDelta = 0xa282ead8

// CRC32C returns the CRC-32C (Castagnoli) of b.
func CRC32C(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// ExtendCRC32C returns the CRC-32C of the concatenation of the bytes of crc and b, so that a
// checksum over several parts needs no copy of them.
func ExtendCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// MaskCRC returns the masked form of crc, which is stored in files.
func MaskCRC(crc uint32) uint32 { return bits.RotateLeft32(crc, -15) + maskDelta }

// UnmaskCRC is the inverse of MaskCRC.
func UnmaskCRC(masked uint32) uint32 { return bits.RotateLeft32(masked-maskDelta, 15) }
