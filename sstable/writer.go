package sstable

import (
	"io"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/util"
)

// writeBufferBytes is how much of the file a Writer gathers before it writes:
// a block at a time would be a system call for each 4 KiB.
const writeBufferBytes = 256 << 10

// WriterOptions say how a table is written.
type WriterOptions struct {
	// Comparer orders the user keys. Nil: base.Bytewise.
	Comparer *sievedb.Comparer
	// Filter makes the table's filter, or several: one of each of filter.Kinds, in a
	// block of its own. Nil or filter.None: the table has none. Finish asks each
	// filter for every key before it writes it, and fails if one is denied. The keys
	// are held in memory for that unless the policy's generator is a
	// filter.CheckedGenerator.
	Filter filter.Policy
	// RangeFilters make the table's filters of ranges, each in a block of its own; their
	// names differ, and there are at most MaxRangePolicies. Comparer must be base.Bytewise.
	// Finish asks each for every key as well.
	RangeFilters []rangefilter.Policy
	// FilterAliases are second names, by the name of the policy, that the metaindex
	// lists filters under, for readers that know the same encoding by another name.
	// Each is listed once, whatever this says.
	FilterAliases map[string]string
	// BlockSize is the size in bytes, uncompressed, at which a data block is
	// closed: it is exceeded by at most one entry, and not at all where nine tenths
	// of it are full already. An entry of 1 MiB or more, and no less than BlockSize, gets
	// a block of its own. 0: 4096.
	BlockSize int
	// BlockRestartInterval is the number of entries from one restart point of a
	// data block to the next. 0: 16.
	BlockRestartInterval int
	// Compression of the data and index blocks; a block that does not shrink by
	// an eighth is stored raw.
	Compression Compression
}

// Writer writes one table. Entries are added in rising order, then Finish is
// called once. The first error sticks: every later call returns it. A Writer is
// used by one goroutine at a time.
type Writer struct {
	w        io.Writer // nil when the table is finished
	cmp      *base.Comparer
	bytewise bool
	opts     WriterOptions

	out     []byte // bytes of the file that are not written yet
	written uint64 // bytes handed to w
	err     error
	done    bool

	data    blockWriter
	index   blockWriter
	filters []tableFilter // best first
	ranges  []tableRange
	lastKey []byte // internal key of the last entry
	// pending is the block that awaits its index entry: the separator needs the
	// first key of the next one. lastOffset is where the last block begins.
	pending    handle
	hasPending bool
	lastOffset uint64

	smallest   []byte
	props      Properties
	filterSize uint64 // of the filter asked first
	allFilters uint64 // of all filters of keys
	rangeSize  uint64 // of all filters of ranges
	scratch    []byte
}

// NewWriter returns a Writer of a table to w. It neither syncs nor closes w.
func NewWriter(w io.Writer, o WriterOptions) *Writer {
	if o.Comparer == nil {
		o.Comparer = base.Bytewise
	}
	if o.BlockSize <= 0 {
		o.BlockSize = 4096
	}
	if o.BlockRestartInterval <= 0 {
		o.BlockRestartInterval = 16
	}
	return &Writer{
		w: w, cmp: o.Comparer, bytewise: o.Comparer.IsBytewise(), opts: o,
		data:    blockWriter{interval: o.BlockRestartInterval},
		index:   blockWriter{interval: 1},
		filters: newTableFilters(o.Filter),
		ranges:  newTableRanges(o.RangeFilters),
		out:     make([]byte, 0, writeBufferBytes+writeBufferBytes/8),
	}
}

// Reset makes the Writer ready for another table, to w and with the options that
// it was made with. It keeps its memory, which grows with the number of keys of a
// table (see MemoryKept), but for buffers above 4 MiB, and must have finished its table
// without an error. What Largest returned may change from now on.
func (w *Writer) Reset(to io.Writer) {
	if !w.done || w.err != nil {
		panic("sstable: Reset of a Writer that has not finished its table")
	}
	w.data.reset()
	w.index.reset()
	w.index.buf, w.index.lastKey = kept(w.index.buf), kept(w.index.lastKey)
	for i := range w.filters {
		w.filters[i].reset()
	}
	for i := range w.ranges {
		w.ranges[i].gen.Reset()
	}
	*w = Writer{
		w: to, cmp: w.cmp, bytewise: w.bytewise, opts: w.opts,
		data: w.data, index: w.index, filters: w.filters, ranges: w.ranges,
		out: kept(w.out), lastKey: kept(w.lastKey), scratch: kept(w.scratch),
	}
}

// SetFilter says what filters the table gets, in place of WriterOptions.Filter, for this
// table and the ones after Reset. It is called before the first Add.
func (w *Writer) SetFilter(p filter.Policy) {
	if w.props.Entries > 0 {
		panic("sstable: SetFilter behind Add")
	}
	if w.MakesFilter(p) {
		return // what it has keeps its memory
	}
	w.opts.Filter = p
	w.filters = newTableFilters(p)
}

// MakesFilter reports whether the table gets the filters of p, one of filter.BloomPolicy, as things are.
func (w *Writer) MakesFilter(p filter.Policy) bool {
	a, ok := p.(filter.BloomPolicy) // others may not be comparable
	b, same := w.opts.Filter.(filter.BloomPolicy)
	return ok && same && a == b
}

// FilterSize returns the bytes of the filter block of the policy that readers ask first,
// 0 where the table has none. It is known once the table is finished.
func (w *Writer) FilterSize() uint64 { return w.filterSize }

// AllFiltersSize returns the bytes of the filter blocks of all policies, as FilterSet.Bytes
// does of a table that is read. It is known once the table is finished.
func (w *Writer) AllFiltersSize() uint64 { return w.allFilters }

// RangeFilterSize returns the bytes of the filters of ranges, once the table is finished.
func (w *Writer) RangeFilterSize() uint64 { return w.rangeSize }

// Entries returns how many entries were added.
func (w *Writer) Entries() uint64 { return w.props.Entries }

// Add appends an entry. The internal key must sort behind all before it. Both
// slices are copied, or written at once. Key and value together take at most 1 GiB - 1
// byte; package db takes less, see db.MaxKeySize and db.MaxValueSize.
func (w *Writer) Add(ikey, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.done {
		return w.fail(errors.New("sstable: Add after Finish"))
	}
	if !base.ValidInternalKey(ikey) {
		return w.fail(errors.New("sstable: the key added is no internal key; want 8 bytes of trailer of kind 0 or 1"))
	}
	if uint64(len(ikey))+uint64(len(value)) > maxBlockLen/2 {
		return w.fail(errors.Newf("sstable: an entry of %d bytes, key and value together; at most %d are supported", uint64(len(ikey))+uint64(len(value)), maxBlockLen/2))
	}
	shared := base.SharedPrefixLen(w.lastKey, ikey)
	newUser, ok := w.place(ikey, shared)
	if !ok {
		return w.fail(errors.Newf("sstable: entry %d does not sort behind the one before it", w.props.Entries))
	}
	large := w.isLarge(ikey, value)
	if large || w.fullEnough(ikey, value, shared) {
		if err := w.finishDataBlock(); err != nil {
			return err
		}
	}
	if w.hasPending {
		w.indexPending(ikey)
	}
	if newUser {
		w.addToFilters(base.UserKey(ikey))
	}
	w.count(ikey, value)
	if large {
		return w.addLarge(ikey, value)
	}
	w.data.addShared(ikey, value, shared)
	w.lastKey = append(w.lastKey[:shared], ikey[shared:]...)
	if w.data.size() >= w.opts.BlockSize {
		return w.finishDataBlock()
	}
	return nil
}

// CoverSeq notes that entries added with sequence number 0 had numbers up to seq
// before: Properties.LargestSeq is at least that.
func (w *Writer) CoverSeq(seq uint64) { w.props.LargestSeq = max(w.props.LargestSeq, seq) }

// fullEnough says whether the data block is closed before an entry that would take it
// beyond its size. Blocks of 4 KiB and a little would take the memory of 4.75 KiB in
// a cache, and a second page each from the file.
func (w *Writer) fullEnough(ikey, value []byte, shared int) bool {
	const header = 3 // bytes of an entry whose lengths are short
	size, most := w.data.size(), w.opts.BlockSize
	return size >= most-most/10 && size+header+len(ikey)-shared+len(value) > most && !w.data.empty()
}

// place compares ikey, which shares that many bytes with the last key, with the
// last key: ok is whether it sorts behind it, newUser whether it has another
// user key. For bytewise order the shared length has done the work already.
func (w *Writer) place(ikey []byte, shared int) (newUser, ok bool) {
	if w.props.Entries == 0 {
		return true, true
	}
	n, last := len(ikey)-base.TrailerLen, len(w.lastKey)-base.TrailerLen
	if w.bytewise && shared < min(n, last) {
		return true, w.lastKey[shared] < ikey[shared]
	}
	newUser = n != last || shared < n
	return newUser, base.CompareInternal(w.cmp, w.lastKey, ikey) < 0
}

// count keeps the properties.
func (w *Writer) count(ikey, value []byte) {
	p := &w.props
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	if p.Entries == 0 {
		w.smallest = append([]byte(nil), ikey...)
		p.SmallestSeq = seq
	}
	p.Entries++
	if kind == base.KindDelete {
		p.Deletions++
	}
	p.RawKeyBytes += uint64(len(ikey))
	p.RawValueBytes += uint64(len(value))
	p.SmallestSeq = min(p.SmallestSeq, seq)
	p.LargestSeq = max(p.LargestSeq, seq)
}

// finishDataBlock writes the pending data block.
func (w *Writer) finishDataBlock() error {
	if w.data.empty() {
		return nil
	}
	w.lastOffset = w.Size()
	h, err := w.writeBlock(w.data.finish(), w.opts.Compression)
	if err != nil {
		return err
	}
	w.data.reset()
	w.pending, w.hasPending = h, true
	w.props.DataBlocks++
	w.props.DataBytes += h.size + blockTrailerLen
	return nil
}

// indexPending writes the index entry of the pending block. next is the key
// behind it, nil at the end of the table.
func (w *Writer) indexPending(next []byte) {
	if next != nil {
		w.scratch = base.InternalSeparator(w.cmp, w.scratch[:0], w.lastKey, next)
	} else {
		w.scratch = base.InternalSuccessor(w.cmp, w.scratch[:0], w.lastKey)
	}
	n := len(w.scratch)
	w.scratch = w.pending.append(w.scratch)
	w.index.add(w.scratch[:n], w.scratch[n:])
	w.hasPending = false
}

// writeBlock appends a block and its trailer to the file.
func (w *Writer) writeBlock(block []byte, kind Compression) (handle, error) {
	if len(block) > maxBlockLen {
		return handle{}, w.fail(errors.Newf("sstable: a block of %d bytes; at most %d fit", len(block), maxBlockLen))
	}
	h := handle{offset: w.Size()}
	start := len(w.out)
	out, stored, err := appendCompressed(w.out, block, kind)
	if err != nil {
		return handle{}, w.fail(errors.Wrap(err, "sstable: compressing a block"))
	}
	h.size = uint64(len(out) - start)
	out = append(out, byte(stored))
	w.out = util.AppendFixed32(out, util.MaskCRC(util.CRC32C(out[start:])))
	if len(w.out) < writeBufferBytes {
		return h, nil
	}
	return h, w.flushOut()
}

func (w *Writer) flushOut() error {
	if len(w.out) == 0 {
		return nil
	}
	if err := w.write(w.out); err != nil {
		return err
	}
	w.out = w.out[:0]
	return nil
}

// write appends b to what was written before.
func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(errors.Wrapf(err, "sstable: writing %d bytes at offset %d", len(b), w.written))
	}
	w.written += uint64(len(b))
	return nil
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// Finish writes what is left of the data, the filter, the properties,
// metaindex, index and footer. It neither syncs nor closes the file.
func (w *Writer) Finish() (Properties, error) {
	if w.err != nil {
		return Properties{}, w.err
	}
	if w.done {
		return Properties{}, w.fail(errors.New("sstable: Finish after Finish"))
	}
	if err := w.finishDataBlock(); err != nil {
		return Properties{}, err
	}
	if w.hasPending {
		w.indexPending(nil)
	}
	for _, f := range w.filters {
		w.props.FilterKeys = uint64(f.keys) // of each the same
	}
	filters, err := w.filterBlocks()
	if err != nil {
		return Properties{}, err
	}
	if len(filters) > 0 {
		w.filterSize = uint64(len(filters[0].block))
	}
	for _, f := range filters {
		w.allFilters += uint64(len(f.block))
	}
	if err := w.finishTail(filters); err != nil {
		return Properties{}, err
	}
	w.done, w.w = true, nil // a Writer that waits for Reset holds no file
	return w.props, nil
}

// finishTail writes all behind the data blocks.
func (w *Writer) finishTail(filters []namedFilter) (err error) {
	var foot footer
	meta := metaEntries{}
	if err := w.writeFilters(filters, meta); err != nil {
		return err
	}
	if err := w.writeRanges(meta); err != nil {
		return err
	}
	props := blockWriter{interval: 1}
	encodeProperties(&props, &w.props)
	h, err := w.writeBlock(props.finish(), NoCompression)
	if err != nil {
		return err
	}
	meta[propertiesKey] = w.propertiesValue(h)
	// Raw as well: the tools of other stores read no compressed metaindex.
	if foot.metaindex, err = w.writeBlock(meta.block(), NoCompression); err != nil {
		return err
	}
	if foot.index, err = w.writeBlock(w.index.finish(), w.opts.Compression); err != nil {
		return err
	}
	w.out = foot.append(w.out)
	return w.flushOut()
}

// propertiesValue returns the metaindex value of the properties block at h.
func (w *Writer) propertiesValue(h handle) []byte {
	value := util.AppendUvarint64(h.append(nil), w.lastOffset)
	if w.props.Entries == 0 {
		return value
	}
	return makeBounds(w.smallest, w.lastKey).append(value)
}

// Size returns the length of the file so far, in bytes, without the pending
// data block; after Finish, the length of the file.
func (w *Writer) Size() uint64 { return w.written + uint64(len(w.out)) }

// EstimatedSize returns the length of the file so far, in bytes, the pending
// data block included as if it did not compress.
func (w *Writer) EstimatedSize() uint64 {
	if w.data.empty() {
		return w.Size()
	}
	return w.Size() + uint64(w.data.size())
}

// Smallest returns the first internal key added, nil if there is none. The
// slice is the Writer's; it does not change.
func (w *Writer) Smallest() []byte { return w.smallest }

// Largest returns the last internal key added, nil if there is none. The slice
// is the Writer's and changes with Add.
func (w *Writer) Largest() []byte {
	if w.props.Entries == 0 {
		return nil
	}
	return w.lastKey
}
