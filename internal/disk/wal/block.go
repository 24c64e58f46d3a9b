package wal

import (
	"io"

	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// block is one block of a log as it was read, the last one cut at the end of the log.
type block struct {
	off  int64 // where it begins; -1 while none was read
	data []byte
	// sums are the sums of data once the look-ahead has needed them; empty before.
	sums sums
}

// load reads the block that contains off. off is less than the size of the log.
func (r *Reader) load(off int64) error {
	off -= off % blockSize
	if off == r.block.off {
		return nil
	}
	r.block.off = -1 // until it is read completely
	r.block.sums.running = r.block.sums.running[:0]
	n := int(min(blockSize, r.size-off))
	if cap(r.block.data) < n {
		r.block.data = make([]byte, n)
	}
	r.block.data = r.block.data[:n]
	if err := r.readFull(r.block.data, off); err != nil {
		return err
	}
	r.block.off = off
	return nil
}

// readFull fills p with the bytes at off.
func (r *Reader) readFull(p []byte, off int64) error {
	n, err := vfs.ReadFull(r.src, p, off)
	if err == io.ErrUnexpectedEOF {
		r.short = off + int64(n)
	}
	return err
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

// tryChunk returns the chunk that begins at data[at:] if its checksum is valid. data[at:] has at least the size of a
// header. Unlike chunkAt, it takes checksums from the sums, because it is called for every byte.
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
