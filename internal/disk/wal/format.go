package wal

import (
	"fmt"

	"github.com/sievedb/sievedb/util"
)

// These constants are part of the files and never change.
const (
	blockSize  = 32 << 10
	headerSize = 7

	kindZero   = 0 // space that was reserved and not filled
	kindFull   = 1
	kindFirst  = 2
	kindMiddle = 3
	kindLast   = 4
)

// MaxRecordSize is the length in bytes of the longest record that a Writer accepts, and a Reader by default.
const MaxRecordSize = 1 << 30

// sectorSize is the unit that a disk writes completely or not at all: 512 bytes on every disk of
// the last decades, or a multiple of it.
const sectorSize = 512

// chunkKind returns the kind of a chunk, given whether it begins and whether it ends its record.
func chunkKind(begins, ends bool) byte {
	switch {
	case begins && ends:
		return kindFull
	case begins:
		return kindFirst
	case ends:
		return kindLast
	}
	return kindMiddle
}

// appendChunkHeader appends the header of a chunk of n bytes without its checksum; sealChunk
// fills that in once the payload is after it.
func appendChunkHeader(dst []byte, n int, kind byte) []byte {
	return append(dst, 0, 0, 0, 0, byte(n), byte(n>>8), kind)
}

// sealChunk computes the checksum of chunk, a header and its payload. The kind is the last byte
// of the header, so the checksum covers one contiguous piece.
func sealChunk(chunk []byte) {
	util.PutFixed32(chunk, util.MaskCRC(util.CRC32C(chunk[headerSize-1:])))
}

// fault says why bytes do not continue a log.
type fault struct {
	// at is the offset of the chunk in question, the log's size at its end.
	at  int64
	why string
	// cut: the log's bytes end before the chunk, or the record, does.
	cut bool
	// unknown: the kind of the chunk is unknown, and nothing else of it has been checked.
	unknown bool
	// newer: the kind of the chunk is unknown, and its checksum is valid.
	newer bool
	// pending: the log is Live, and the header of the chunk is not written yet.
	pending bool
	// whole: the chunks are valid, but the record is longer than the limit of the reader. No crash explains that.
	whole bool
}

// payloadLen reads the header of a chunk. b has the bytes from the beginning of the chunk to the
// end of the block or of the log, whichever comes first; room is the number of bytes to the end
// of the block. bad is nil if b has the whole payload; its checksum is not compared yet.
func payloadLen(b []byte, room int) (n int, bad *fault) {
	if len(b) < headerSize {
		return 0, &fault{cut: true, why: fmt.Sprintf("%d bytes are left, but the header of a chunk has %d",
			len(b), headerSize)}
	}
	n, kind := storedLen(b), b[6]
	switch {
	case kind == kindZero && n == 0:
		return 0, &fault{why: "found unwritten zeros, want a chunk"}
	case kind == kindZero || kind > kindLast:
		return n, &fault{unknown: true, why: fmt.Sprintf("chunk kind %d is unknown", kind)}
	case n > room-headerSize:
		return 0, &fault{why: fmt.Sprintf("a chunk of %d bytes extends past the end of its block, %d bytes away",
			n, room-headerSize)}
	case n > len(b)-headerSize:
		return 0, &fault{cut: true, why: fmt.Sprintf("a chunk of %d bytes extends past the end of the log, %d bytes away",
			n, len(b)-headerSize)}
	}
	return n, nil
}

// storedLen returns the payload length that a whole header states.
func storedLen(header []byte) int { return int(header[4]) | int(header[5])<<8 }

// chunk is a chunk with a valid checksum. Its payload is in the reader's block.
type chunk struct {
	kind    byte
	payload []byte
	off     int64 // where its header begins
	end     int64 // where its payload ends
}

// blockEnd returns the end of the block that contains off.
func blockEnd(off int64) int64 { return off - off%blockSize + blockSize }

// skipTrailer returns where the next chunk begins if the last one ended at off: there, or at the
// next block if no header fits.
func skipTrailer(off int64) int64 {
	if end := blockEnd(off); end-off < headerSize {
		return end
	}
	return off
}
