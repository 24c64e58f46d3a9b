package sstable

import (
	"hash/crc32"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// largeEntry is the size in bytes, key and value together, from which an entry gets a
// separate data block, unless BlockSize is larger. Such a block is not assembled in memory:
// it is compressed and written from the slices of key and value, so that writing a value of
// half a gigabyte does not make two more copies of it.
const largeEntry = 1 << 20

// isLarge reports whether the entry gets a separate block.
func (w *Writer) isLarge(ikey, value []byte) bool {
	size := len(ikey) + len(value)
	return size >= largeEntry && size >= w.opts.BlockSize
}

// addLarge is the final part of Add for a large entry. The previous block has been ended.
func (w *Writer) addLarge(ikey, value []byte) error {
	head := util.AppendUvarint32(nil, 0)
	head = util.AppendUvarint32(head, uint32(len(ikey)))
	head = util.AppendUvarint32(head, uint32(len(value)))
	tail := util.AppendFixed32(nil, 0) // the one restart point
	tail = util.AppendFixed32(tail, 1) // their number
	w.lastKey = append(w.lastKey[:0], ikey...)
	h, err := w.writeParts(codec.Parts{head, ikey, value, tail})
	if err != nil {
		return err
	}
	w.endBlock(h, w.opts.Values || makesLone(len(ikey), len(value)))
	return nil
}

// writeParts is writeBlock for a data block in several parts.
func (w *Writer) writeParts(block codec.Parts) (handle, error) {
	if n := block.Len(); n > maxBlockLen {
		return handle{}, w.fail(errors.Newf("sstable: a block of %d bytes; at most %d are supported", n, maxBlockLen))
	}
	stored, err := codec.CompressParts(block, uint8(w.opts.Compression))
	if err != nil {
		return handle{}, w.fail(errors.Wrap(err, "sstable: compressing a block"))
	}
	defer stored.Release()
	h := handle{Offset: w.Size(), Size: uint64(stored.Len())}
	crc, ieee := uint32(0), uint32(0)
	for _, b := range append(stored.Parts, []byte{stored.Kind}) {
		crc, ieee = util.ExtendCRC32C(crc, b), crc32.Update(ieee, crc32.IEEETable, b)
		if err := w.writeThrough(b); err != nil {
			return handle{}, err
		}
	}
	w.out = util.AppendFixed32(w.out, util.MaskCRC(crc))
	w.content.AddSums(crc, ieee)
	return h, nil
}

// writeThrough appends b to the file, by way of w.out if b is small. A larger b is written in
// pieces, so that the device can begin early.
func (w *Writer) writeThrough(b []byte) error {
	if len(b) < writeBufferBytes {
		if w.out = append(w.out, b...); len(w.out) < writeBufferBytes {
			return nil
		}
		return w.flushOut()
	}
	if err := w.flushOut(); err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), 4*writeBufferBytes)
		if err := w.write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// maxKept bounds each buffer that a Writer keeps for its next table, in bytes.
const maxKept = 4 << 20

// kept returns b emptied, or nil if it is too large to be kept.
func kept(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}

// MemoryKept returns about how many bytes of memory Reset would keep. It grows with the table.
// Callers that pool Writers should not keep those of unusually large tables.
func (w *Writer) MemoryKept() uint64 {
	n := cap(w.out) + cap(w.lastKey) + cap(w.scratch)
	for _, b := range []*blockWriter{&w.data, &w.index} {
		n += cap(b.buf) + cap(b.lastKey) + 4*cap(b.restarts)
	}
	const hash, solver = 8, 24 // bytes that a generator keeps for a key, and that of a fuse filter besides
	for i := range w.filters {
		f := &w.filters[i]
		n += cap(f.arena) + 8*cap(f.ends) + cap(f.made) + hash*f.keys
		if _, ok := f.policy.(filter.FusePolicy); ok {
			n += solver * f.keys
		}
	}
	return uint64(n) + uint64(len(w.ranges))*2*hash*w.props.Entries
}
