package sstable

import (
	"hash/crc32"
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// The functions of this file are for tools that read a table part by part.

// ReadFooter reads the footer of the table in f, and returns the size of the file as well.
func ReadFooter(f vfs.File) (foot codec.Footer, fileSize uint64, err error) {
	size, err := f.Size()
	if err != nil {
		return foot, 0, err
	}
	if size < footerLen {
		return foot, 0, base.Corruptf("footer", 0, "the file has %d bytes; want at least %d", size, footerLen)
	}
	b := make([]byte, footerLen)
	if _, err = vfs.ReadFull(f, b, size-footerLen); err == nil {
		foot, err = codec.DecodeFooter(b, uint64(size))
	}
	return foot, uint64(size), err
}

// ReadBlock reads a block of a table of fileSize bytes, checks its checksum and decompresses it. stored is the block
// with its trailer, whose first byte is its compression; it is nil if the block cannot be read. ReadBlock allocates no
// more than the block's stored size justifies.
func ReadBlock(f vfs.File, fileSize uint64, h codec.Handle) (stored, data []byte, err error) {
	const part = "block"
	if err := h.Check(fileSize, part, part); err != nil {
		return nil, nil, err
	}
	stored = make([]byte, h.Size+blockTrailerLen)
	if _, err := vfs.ReadFull(f, stored, int64(h.Offset)); err != nil {
		return nil, nil, err
	}
	data, _, err = openBlock(stored, nil, part)
	return stored, data, err
}

// EachEntry calls fn with each key and value of a block that ReadBlock returned, and returns the number
// of its restart points. Filters are not blocks of entries. The key is valid during the call.
func EachEntry(data []byte, fn func(key, value []byte) error) (restarts int, err error) {
	b, err := newBlock(data, "block")
	if err != nil {
		return 0, err
	}
	return int(b.numRestarts), b.eachEntry("block", fn)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NextBlock finds the end of the block at off of a table of fileSize bytes by its checksum, for tables
// whose index is lost. buf is memory for it, of some KiB.
func NextBlock(f vfs.File, fileSize, off uint64, buf []byte) (h codec.Handle, found bool, err error) {
	const after = blockTrailerLen - 1 // the bytes of a checksum
	crc := ^uint32(0)
	for at := off; at+after < fileSize; {
		n := int(min(uint64(len(buf)), fileSize-at))
		if _, err := vfs.ReadFull(f, buf[:n], int64(at)); err != nil {
			return handle{}, false, err
		}
		for i, c := range buf[:n-after] {
			crc = castagnoli[byte(crc)^c] ^ crc>>8
			// c may be the byte of compression, which has few values.
			if c <= maxCompressionByte && util.Fixed32(buf[i+1:]) == util.MaskCRC(^crc) {
				h = handle{Offset: off, Size: at + uint64(i) - off}
				return h, h.Size <= math.MaxInt32-blockTrailerLen, nil
			}
		}
		at += uint64(n - after)
	}
	return handle{}, false, nil
}

// maxCompressionByte is the largest kind of compression that LevelDB or its derivatives wrote, or that
// a later version of SieveDB may write.
const maxCompressionByte = 31
