package codec

import (
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// BlockTrailerLen is the length of the trailer that follows each block in the file:
// one byte of compression and the masked CRC-32C of the block and that byte.
const BlockTrailerLen = 5

// Handle is the position of a block in the file: two varints, LevelDB's BlockHandle. Size does not include the trailer.
type Handle struct{ Offset, Size uint64 }

// Append appends the handle to dst.
func (h Handle) Append(dst []byte) []byte {
	return util.AppendUvarint64(util.AppendUvarint64(dst, h.Offset), h.Size)
}

// DecodeHandle reads a handle from the front of b and returns the remaining bytes.
func DecodeHandle(b []byte, part string) (h Handle, rest []byte, err error) {
	var n, m int
	if h.Offset, n = util.Uvarint64(b); n > 0 {
		h.Size, m = util.Uvarint64(b[n:])
	}
	if n == 0 || m == 0 {
		return Handle{}, nil, base.Corruptf(part, -1,
			"a block handle in %d bytes is malformed; want two varints of at most 10 bytes each", len(b))
	}
	return h, b[n+m:], nil
}

// Check returns an error unless the block and its trailer are within the first limit
// bytes of the file, those before the footer, and the size fits in an int. part is
// the block that contains the handle, and of is the block that the handle is for.
func (h Handle) Check(limit uint64, part, of string) error {
	if limit >= BlockTrailerLen {
		if most := limit - BlockTrailerLen; h.Size <= most && h.Offset <= most-h.Size && h.Size <= math.MaxInt32-BlockTrailerLen {
			return nil
		}
	}
	return base.Corruptf(part, -1, "the handle of the %s says %d bytes at offset %d; "+
		"want block and trailer within the %d bytes before the footer", of, h.Size, h.Offset, limit)
}

// End returns the offset after the block's trailer. The handle must have been checked.
func (h Handle) End() uint64 { return h.Offset + h.Size + BlockTrailerLen }
