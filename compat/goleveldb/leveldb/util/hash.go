package util

import "github.com/sievedb/sievedb/util"

// Hash is LevelDB's hash of data, which its filters use.
func Hash(data []byte, seed uint32) uint32 { return util.Hash(data, seed) }

// CRC is a CRC-32C checksum.
type CRC uint32

// NewCRC returns the checksum of b.
func NewCRC(b []byte) CRC { return CRC(util.CRC32C(b)) }

// Update returns the checksum of the bytes so far, followed by b.
func (c CRC) Update(b []byte) CRC { return CRC(util.ExtendCRC32C(uint32(c), b)) }

// Value returns the checksum as LevelDB's files have it.
func (c CRC) Value() uint32 { return util.MaskCRC(uint32(c)) }
