package table

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/golang/snappy"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

var errWriterClosed = errors.New("leveldb/table: writer is closed")

// Writer writes a table. It is used by one goroutine at a time. After a failure every call returns its error.
type Writer struct {
	w         io.Writer
	err       error
	cmp       comparer.Comparer
	snappy    bool
	blockSize int

	data, index blockWriter
	filter      filterWriter

	// pending is the last data block. Its index entry waits for the next key.
	pending    blockHandle
	hasPending bool

	offset          uint64
	entries, blocks int
}

// NewWriter returns a Writer for the file f. pool and size have no effect.
func NewWriter(f io.Writer, o *opt.Options, pool *util.BufferPool, size int) *Writer {
	w := &Writer{w: f, cmp: o.GetComparer(), snappy: o.GetCompression() == opt.SnappyCompression, blockSize: o.GetBlockSize()}
	w.data.interval, w.index.interval = o.GetBlockRestartInterval(), 1
	if policy := o.GetFilter(); policy != nil {
		w.filter = filterWriter{policy: policy, generator: policy.NewGenerator(), shift: uint(o.GetFilterBaseLg())}
	}
	return w
}

// Append adds an entry. The key must be after all keys before. Both slices are copied.
func (w *Writer) Append(key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.entries > 0 && w.cmp.Compare(w.data.last, key) >= 0 {
		w.err = fmt.Errorf("leveldb/table: Writer: keys are not in increasing order: %q, %q", w.data.last, key)
		return w.err
	}
	w.indexPending(key)
	w.data.append(key, value)
	w.filter.add(key)
	w.entries++
	if w.data.size() >= w.blockSize {
		w.finishData()
	}
	return w.err
}

// indexPending writes the index entry of the last data block, with a short key before next; nil: the table ends.
func (w *Writer) indexPending(next []byte) {
	if !w.hasPending {
		return
	}
	last := w.data.last
	var separator []byte
	if next == nil {
		separator = w.cmp.Successor(nil, last)
	} else {
		separator = w.cmp.Separator(nil, last, next)
	}
	if separator == nil {
		separator = last
	}
	w.index.append(separator, w.pending.append(nil))
	w.data.reset()
	w.hasPending = false
}

// finishData writes a data block. Its last key stays until indexPending.
func (w *Writer) finishData() {
	last := append([]byte(nil), w.data.last...)
	w.pending = w.writeBlock(w.data.finish(), w.snappy)
	w.data.reset()
	w.data.last = last
	w.hasPending = true
	w.blocks++
	w.filter.endBlock(w.offset)
}

func (w *Writer) writeBlock(content []byte, compress bool) blockHandle {
	kind := byte(storedPlain)
	if compress {
		content, kind = snappy.Encode(nil, content), storedSnappy
	}
	content = append(content[:len(content):len(content)], kind)
	h := blockHandle{w.offset, uint64(len(content) - 1)}
	w.write(binary.LittleEndian.AppendUint32(content, util.NewCRC(content).Value()))
	return h
}

func (w *Writer) write(p []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(p)
	w.offset += uint64(n)
	w.err = err
}

// Close ends the table. It does not close the file.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.data.entries > 0 || w.entries == 0 {
		w.finishData()
	}
	w.indexPending(nil)
	meta := blockWriter{interval: 1}
	if w.filter.policy != nil {
		h := w.writeBlock(w.filter.finish(), false)
		meta.append([]byte(filterPrefix+w.filter.policy.Name()), h.append(nil))
	}
	metaHandle := w.writeBlock(meta.finish(), w.snappy)
	indexHandle := w.writeBlock(w.index.finish(), w.snappy)

	footer := make([]byte, footerSize-8, footerSize)
	copy(footer, indexHandle.append(metaHandle.append(nil)))
	w.write(binary.LittleEndian.AppendUint64(footer, magic))
	if w.err != nil {
		return w.err
	}
	w.err = errWriterClosed
	return nil
}

// BlocksLen returns the number of data blocks so far.
func (w *Writer) BlocksLen() int { return w.blocks }

// EntriesLen returns the number of entries so far.
func (w *Writer) EntriesLen() int { return w.entries }

// BytesLen returns the number of bytes written so far.
func (w *Writer) BytesLen() int { return int(w.offset) }

// filterWriter makes the filter block: a filter for the blocks that begin in each 2^shift bytes of the
// file, the offset of each, and the shift. Without a policy it does nothing.
type filterWriter struct {
	policy    filter.Filter
	generator filter.FilterGenerator
	shift     uint
	buf       util.Buffer
	offsets   []uint32
	keys      int
}

func (f *filterWriter) add(key []byte) {
	if f.policy != nil {
		f.generator.Add(key)
		f.keys++
	}
}

// endBlock is called when the next block begins at offset.
func (f *filterWriter) endBlock(offset uint64) {
	for f.policy != nil && offset>>f.shift > uint64(len(f.offsets)) {
		f.endFilter()
	}
}

func (f *filterWriter) endFilter() {
	f.offsets = append(f.offsets, uint32(f.buf.Len()))
	if f.keys > 0 {
		f.generator.Generate(&f.buf)
		f.keys = 0
	}
}

func (f *filterWriter) finish() []byte {
	if f.keys > 0 {
		f.endFilter()
	}
	end := uint32(f.buf.Len())
	content := append([]byte(nil), f.buf.Bytes()...)
	for _, o := range append(f.offsets, end) {
		content = binary.LittleEndian.AppendUint32(content, o)
	}
	return append(content, byte(f.shift))
}
