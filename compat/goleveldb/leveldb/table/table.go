// Package table reads and writes LevelDB's tables (its doc/table_format.md), sorted files of keys and values. Databases
// do not use it; it is here for programs that use it themselves. SieveDB's own tables are those of its package sstable.
//
//	data blocks | filter block | metaindex block | index block | footer, 48 bytes
//
// A block is followed by its compression, one byte, and the checksum of both.
package table

import (
	"encoding/binary"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/errors"
)

const (
	footerSize  = 48
	trailerSize = 5
	magic       = 0xdb4775248b80fb57

	storedPlain  = 0
	storedSnappy = 1

	filterPrefix = "filter."
)

// Errors to compare with ==.
var (
	ErrNotFound       = errors.ErrNotFound
	ErrReaderReleased = errors.New("leveldb/table: reader released")
	ErrIterReleased   = errors.New("leveldb/table: iterator released")
)

// ErrCorrupted says which bytes of a table are damaged. It is the Err of an *errors.ErrCorrupted.
type ErrCorrupted struct {
	Pos    int64
	Size   int64
	Kind   string
	Reason string
}

// Error implements error.
func (e *ErrCorrupted) Error() string {
	return fmt.Sprintf("leveldb/table: corruption on %s (pos=%d): %s", e.Kind, e.Pos, e.Reason)
}

// blockHandle is the place of a block, without its trailer.
type blockHandle struct{ offset, size uint64 }

func (h blockHandle) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, h.offset), h.size)
}

// parseHandle returns a handle and the length of its encoding, 0 if there is none.
func parseHandle(b []byte) (blockHandle, int) {
	offset, n := binary.Uvarint(b)
	if n <= 0 {
		return blockHandle{}, 0
	}
	size, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return blockHandle{}, 0
	}
	return blockHandle{offset, size}, n + m
}
