package wal

import (
	"fmt"
	"io"

	"github.com/sievedb/sievedb/util"
)

// block is one block of a log as it was read, the last one cut at the log's
// end.
type block struct {
	off  int64 // where it begins; -1 while none was read
	data []byte
	// sums are those of data once the look-ahead has needed them; empty before.
	sums sums
}

// load makes the block that off lies in the reader's block. off is below the
// log's size.
func (r *Reader) load(off int64) error {
	off -= off % blockSize
	if off == r.block.off {
		return nil
	}
	r.block.off = -1 // until it is read whole
	r.block.sums.running = r.block.sums.running[:0]
	n := int(min(blockSize, r.size-off))
	if cap(r.block.data) < n {
		r.block.data = make([]byte, n)
	}
	r.block.data = r.block.data[:n]
	if err := readFull(r.src, r.block.data, off); err != nil {
		return err
	}
	r.block.off = off
	return nil
}

// maxEmptyReads is how many reads in a row may return neither bytes nor an
// error. As bufio.
const maxEmptyReads = 100

// readFull fills p from src at off. It takes reads that are shorter than asked
// without an error, which io.ReaderAt does not allow but a file system layer
// may pass on, and takes no end of file for an answer: the caller knows that the
// bytes are there.
func readFull(src io.ReaderAt, p []byte, off int64) error {
	for empty := 0; len(p) > 0; {
		n, err := src.ReadAt(p, off)
		if n < 0 || n > len(p) {
			return fmt.Errorf("read of %d bytes of the log at offset %d returned %d bytes", len(p), off, n)
		}
		p, off = p[n:], off+int64(n)
		switch {
		case len(p) == 0:
			return nil
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case n > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return io.ErrNoProgress
			}
		}
	}
	return nil
}

// maskedCRC returns the masked checksum of data[i:j].
func (b *block) maskedCRC(i, j int) uint32 {
	if b.sums.made() {
		return util.MaskCRC(b.sums.crc(i, j))
	}
	return util.MaskCRC(util.CRC32C(b.data[i:j]))
}

// chunk returns the chunk at data[at:] with a payload of n bytes.
func (b *block) chunk(at, n int) chunk {
	body := at + headerSize
	return chunk{
		kind:    b.data[at+6],
		payload: b.data[body : body+n : body+n],
		off:     b.off + int64(at),
		end:     b.off + int64(body+n),
	}
}

// tryChunk returns the chunk that begins at data[at:] if its checksum is good.
// At least a header's bytes are there. Unlike chunkAt, it finds checksums
// through the sums, since it is asked at every byte.
func (b *block) tryChunk(at int) (c chunk, ok bool) {
	rest := b.data[at:]
	if kind := rest[6]; kind == kindZero || kind > kindLast {
		return c, false
	}
	n := storedLen(rest)
	if n > len(rest)-headerSize {
		return c, false
	}
	if !b.sums.made() {
		b.sums.make(b.data)
	}
	if b.maskedCRC(at+headerSize-1, at+headerSize+n) != util.Fixed32(rest) {
		return c, false
	}
	return b.chunk(at, n), true
}
