package sstable

import (
	"bytes"
	"hash/crc32"
	"io"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

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
	w.lastOffset = w.Size()
	h, err := w.writeParts(parts{head, ikey, value, tail})
	if err != nil {
		return err
	}
	w.pending = pendingBlock{h, true, w.opts.Values || makesLone(len(ikey), len(value))}
	w.props.DataBlocks++
	w.props.DataBytes += h.Size + blockTrailerLen
	return nil
}

// parts are consecutive bytes in several slices.
type parts [][]byte

func (p parts) len() (n int) {
	for _, b := range p {
		n += len(b)
	}
	return n
}

// reader returns a reader of all parts.
func (p parts) reader() io.Reader {
	readers := make([]io.Reader, len(p))
	for i, b := range p {
		readers[i] = bytes.NewReader(b)
	}
	return io.MultiReader(readers...)
}

// writeParts is writeBlock for a data block in several parts.
func (w *Writer) writeParts(block parts) (handle, error) {
	if n := block.len(); n > maxBlockLen {
		return handle{}, w.fail(errors.Newf("sstable: a block of %d bytes; at most %d are supported", n, maxBlockLen))
	}
	stored, kind, err := compressParts(block, w.opts.Compression)
	if err != nil {
		return handle{}, w.fail(errors.Wrap(err, "sstable: compressing a block"))
	}
	h := handle{Offset: w.Size(), Size: uint64(stored.len())}
	crc, ieee := uint32(0), uint32(0)
	for _, b := range append(stored, []byte{byte(kind)}) {
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

// compressParts returns block in the form in which appendCompressed would store it, and
// the kind. The result may be block itself.
func compressParts(block parts, kind Compression) (parts, Compression, error) {
	n := block.len()
	if kind == NoCompression || n > codec.MaxDecoded {
		return block, NoCompression, nil
	}
	stored := pieces{most: n - n/8 - 1}
	var err error
	switch kind {
	case Snappy:
		err = stored.writeSnappy(block)
	case Zstd:
		err = stored.writeZstd(block)
	default:
		_, _, err = codec.Append(nil, nil, uint8(kind)) // for its error
	}
	switch {
	case err == nil:
		return stored.parts, kind, nil
	case errors.Is(err, errTooLong):
		return block, NoCompression, nil
	}
	return nil, kind, err
}

// pieces is the output of a compressor. It collects bytes in slabs, which are never copied to
// a larger one, and rejects more than most bytes.
type pieces struct {
	parts parts
	size  int
	most  int
}

const slabBytes = 512 << 10

var errTooLong = errors.New("the block does not shrink by an eighth")

func (p *pieces) Write(b []byte) (int, error) {
	if p.size += len(b); p.size > p.most {
		return 0, errTooLong
	}
	for rest := b; len(rest) > 0; {
		n := len(p.parts)
		if n == 0 || len(p.parts[n-1]) == cap(p.parts[n-1]) {
			p.parts = append(p.parts, make([]byte, 0, slabBytes))
			n++
		}
		last := &p.parts[n-1]
		fits := min(len(rest), cap(*last)-len(*last))
		*last = append(*last, rest[:fits]...)
		rest = rest[fits:]
	}
	return len(b), nil
}

// snappyPiece is how many bytes snappy.Encode compresses at a time, independently of earlier
// ones. So compressing pieces of that size one by one gives the same output.
const snappyPiece = 64 << 10

// writeSnappy writes the output of snappy.Encode for block.
func (p *pieces) writeSnappy(block parts) error {
	if _, err := p.Write(util.AppendUvarint64(nil, uint64(block.len()))); err != nil {
		return err
	}
	from, piece := block.reader(), make([]byte, snappyPiece)
	encoded := make([]byte, snappy.MaxEncodedLen(snappyPiece))
	for {
		n, err := io.ReadFull(from, piece)
		if err == io.EOF {
			return nil
		}
		body := snappy.Encode(encoded, piece[:n])
		_, prefix := util.Uvarint32(body) // the length of the piece
		if _, err := p.Write(body[prefix:]); err != nil {
			return err
		}
	}
}

// zstdStreams are encoders for writeZstd, each of which holds several megabytes.
var zstdStreams sync.Pool

// writeZstd writes block as a Zstandard frame that states its size.
func (p *pieces) writeZstd(block parts) error {
	enc, _ := zstdStreams.Get().(*zstd.Encoder)
	if enc == nil {
		var err error
		enc, err = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(codec.ZstdLevel),
			zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(1)) // no background goroutine
		if err != nil {
			return err
		}
	}
	enc.ResetContentSize(p, int64(block.len()))
	_, err := io.Copy(enc, block.reader())
	if err == nil {
		err = enc.Close()
	}
	enc.Reset(nil) // the pool must not keep the block alive
	zstdStreams.Put(enc)
	return err
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
