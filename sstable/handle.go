package sstable

import (
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// blockTrailerLen is the length of the trailer that follows each block in the file:
// one byte of compression and the masked CRC-32C of the block and that byte.
const blockTrailerLen = 5

// handle is the position of a block in the file: two varints, LevelDB's BlockHandle.
// size does not include the trailer.
type handle struct{ offset, size uint64 }

func (h handle) append(dst []byte) []byte {
	return util.AppendUvarint64(util.AppendUvarint64(dst, h.offset), h.size)
}

// decodeHandle reads a handle from the front of b and returns the remaining bytes.
func decodeHandle(b []byte, part string) (h handle, rest []byte, err error) {
	var n, m int
	if h.offset, n = util.Uvarint64(b); n > 0 {
		h.size, m = util.Uvarint64(b[n:])
	}
	if n == 0 || m == 0 {
		return handle{}, nil, base.Corruptf(part, -1,
			"a block handle in %d bytes is malformed; want two varints of at most 10 bytes each", len(b))
	}
	return h, b[n+m:], nil
}

// check returns an error unless the block and its trailer are within the first limit
// bytes of the file, those before the footer, and the size fits in an int. part is
// the block that contains the handle, and of is the block that the handle is for.
func (h handle) check(limit uint64, part, of string) error {
	if limit >= blockTrailerLen {
		if most := limit - blockTrailerLen; h.size <= most && h.offset <= most-h.size && h.size <= math.MaxInt32-blockTrailerLen {
			return nil
		}
	}
	return base.Corruptf(part, -1, "the handle of the %s says %d bytes at offset %d; "+
		"want block and trailer within the %d bytes before the footer", of, h.size, h.offset, limit)
}

// end returns the offset after the block's trailer. The handle must have been checked.
func (h handle) end() uint64 { return h.offset + h.size + blockTrailerLen }
