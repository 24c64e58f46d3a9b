// Package journal reads and writes LevelDB's logs (its doc/log_format.md): sequences of journals, each
// of any number of bytes. Databases do not use it; it is here for programs that use it themselves.
//
// A log is a sequence of blocks of 32 KiB, and a block a sequence of chunks:
//
//	checksum, 4 bytes | length, 2 bytes | type, 1 byte | data
//
// The checksum is of the type and the data. A journal is one full chunk, or a first, any number of
// middle, and a last one. The end of a block that has no room for a header is zero.
package journal

import "fmt"

const (
	blockSize  = 32 << 10
	headerSize = 7
)

// The types of chunks on disk.
const (
	fullChunk   = 1
	firstChunk  = 2
	middleChunk = 3
	lastChunk   = 4
)

// ErrCorrupted says that a chunk or a block is damaged. Size is how many bytes are dropped.
type ErrCorrupted struct {
	Size   int
	Reason string
}

// Error implements error.
func (e *ErrCorrupted) Error() string {
	return fmt.Sprintf("leveldb/journal: block/chunk corrupted: %s (%d bytes)", e.Reason, e.Size)
}

// Dropper is notified of what a Reader skips.
type Dropper interface {
	Drop(err error)
}
