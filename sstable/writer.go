package sstable

import (
	"io"
	"slices"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// writeBufferBytes is how much of the file a Writer buffers before it writes:
// writing each block would be a system call for each 4 KiB.
const writeBufferBytes = 256 << 10

// WriterOptions say how a table is written.
type WriterOptions struct {
	// Comparer orders the user keys. Nil means sievedb.Bytewise.
	Comparer *sievedb.Comparer
	// Filter makes the table's filter, or several: one for each of filter.Kinds, in separate blocks. With nil or
	// filter.None the table has none. Before Finish writes a filter it probes it with every key, and fails if one is
	// denied. The keys are held in memory for that unless the policy's generator is a filter.CheckedGenerator.
	Filter filter.Policy
	// RangeFilters make the table's range filters, each in a separate block. Their names must differ, and there are at
	// most MaxRangePolicies. Comparer must be sievedb.Bytewise. Finish probes each with every key as well.
	RangeFilters []rangefilter.Policy
	// FilterAliases are second names, by policy name, under which the metaindex lists filters, for readers that know
	// the same encoding by another name. An alias that is already in use is ignored.
	FilterAliases map[string]string
	// BlockSize is the size in bytes, uncompressed, at which a data block is ended. At most one entry exceeds it, and
	// none if nine tenths of it are already used. A value of at least 16 KiB and 2*BlockSize gets a separate block if
	// its key is not longer than a 64th, as does an entry of at least 1 MiB and BlockSize. 0 means 4096.
	BlockSize int
	// BlockRestartInterval is the number of entries from one restart point of a data block to the next. 0 means 16.
	// Restart points are closer if the long keys between them would have more than 64 times as many bytes as their
	// entries, and more than 1 MiB: readers refuse that.
	BlockRestartInterval int
	// Compression of the data and index blocks. A block that does not shrink by an eighth is stored uncompressed.
	Compression Compression
	// Expiry, if not nil, returns when a value expires, in milliseconds since 1970, or false if
	// it does not. The properties of a table whose values all expire have the last such time.
	// ExpiryKeys, not 0, identifies the set of keys whose values may expire; the properties have it.
	Expiry     func(key, value []byte) (at uint64, ok bool)
	ExpiryKeys uint64
	// Values makes a value table: each entry has a data block of its own, which only readers of
	// the value read. IDs are the ones of its values, in ascending order.
	Values bool
	IDs    []uint64
}

// Writer writes one table. Entries are added in ascending order, then Finish is called once. The first error sticks:
// every later call returns it. A Writer must be used by one goroutine at a time.
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
	// pending is the block that waits for its index entry: the separator depends on the
	// first key of the next block. lastOffset is where the last block begins.
	pending    pendingBlock
	lone       blocks.Lone
	lastOffset uint64
	refs       base.RefSums // what the entries refer to

	smallest   []byte
	props      Properties
	content    codec.ContentHash
	lasting    bool   // a value does not expire
	filterSize uint64 // of the filter that readers consult first
	allFilters uint64 // of all filters of keys
	rangeSize  uint64 // of all filters of ranges
	scratch    []byte
}

// pendingBlock is a data block without its index entry, or none.
type pendingBlock struct {
	handle
	exists, lone bool
}

// NewWriter returns a Writer that writes a table to w. It neither syncs nor closes w.
func NewWriter(w io.Writer, o WriterOptions) *Writer {
	if o.Comparer == nil {
		o.Comparer = base.Bytewise
	}
	o.setBlockDefaults()
	return &Writer{
		w: w, cmp: o.Comparer, bytewise: o.Comparer.IsBytewise(), opts: o,
		data:    blockWriter{interval: o.BlockRestartInterval},
		index:   blockWriter{interval: 1},
		filters: newTableFilters(o.Filter),
		ranges:  newTableRanges(o.RangeFilters),
	}
}

// setBlockDefaults fills in the defaults of the fields that describe blocks.
func (o *WriterOptions) setBlockDefaults() {
	if o.BlockSize <= 0 {
		o.BlockSize = 4096
	}
	if o.BlockRestartInterval <= 0 {
		o.BlockRestartInterval = 16
	}
}

// SetBlocks changes the options of the same names. It must be called before the first Add.
func (w *Writer) SetBlocks(blockSize, restartInterval int, compression Compression) {
	if w.props.Entries > 0 {
		panic("sstable: SetBlocks after Add")
	}
	w.opts.BlockSize, w.opts.BlockRestartInterval, w.opts.Compression = blockSize, restartInterval, compression
	w.opts.setBlockDefaults()
	w.data.interval = w.opts.BlockRestartInterval
}

// SetValues changes the options Values and IDs. It must be called before the first Add.
func (w *Writer) SetValues(values bool, ids []uint64) { w.opts.Values, w.opts.IDs = values, ids }

// Reset prepares the Writer for another table, written to to with the same options. The Writer must have finished its
// table without an error. It keeps its memory, which grows with the number of keys of a table (see MemoryKept), except
// for buffers above 4 MiB. The slice that Largest returned may change after Reset.
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

// SetFilter replaces WriterOptions.Filter, for this table and those after Reset. It must be
// called before the first Add.
func (w *Writer) SetFilter(p filter.Policy) {
	if w.props.Entries > 0 {
		panic("sstable: SetFilter after Add")
	}
	if w.MakesFilter(p) {
		return // to keep the memory of the existing generators
	}
	w.opts.Filter = p
	w.filters = newTableFilters(p)
}

// MakesFilter reports whether the Writer's filters are those of p, which are all of a filter.BloomPolicy
// or FusePolicy. It returns false for other kinds of policies, and for no filters.
func (w *Writer) MakesFilter(p filter.Policy) bool {
	kinds := filter.Kinds(p)
	return len(kinds) > 0 && slices.EqualFunc(kinds, w.filters, func(kind filter.Policy, f tableFilter) bool {
		switch kind.(type) {
		case filter.BloomPolicy, filter.FusePolicy: // others may not be comparable
			return kind == f.policy
		}
		return false
	})
}

// FilterSize returns the size of the filter block that readers consult first, or 0 if the
// table has none. It is valid after Finish.
func (w *Writer) FilterSize() uint64 { return w.filterSize }

// AllFiltersSize returns the size of the filter blocks of keys of all policies, as
// FilterSet.Bytes does when reading. It is valid after Finish.
func (w *Writer) AllFiltersSize() uint64 { return w.allFilters }

// RangeFilterSize returns the size of the range filters in bytes. It is valid after Finish.
func (w *Writer) RangeFilterSize() uint64 { return w.rangeSize }

// Entries returns how many entries were added.
func (w *Writer) Entries() uint64 { return w.props.Entries }

// Add appends an entry. The internal key must sort after all earlier ones. Add does not retain the slices. Key and
// value together must have less than 1 GiB; package db allows less, see db.MaxKeySize and db.MaxValueSize.
func (w *Writer) Add(ikey, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.done {
		return w.fail(errors.New("sstable: Add after Finish"))
	}
	if !base.ValidInternalKey(ikey) {
		return w.fail(errors.New("sstable: the key is not an internal key; want a trailer of 8 bytes with a known kind"))
	}
	if n := uint64(len(ikey)) + uint64(len(value)); n > maxBlockLen/2 {
		return w.fail(errors.Newf("sstable: an entry of %d bytes, key and value together; at most %d are supported",
			n, maxBlockLen/2))
	}
	if err := w.refs.Count(ikey, value); err != nil {
		return w.fail(err)
	}
	shared := base.SharedPrefixLen(w.lastKey, ikey)
	newUser, ok := w.place(ikey, shared)
	if !ok {
		return w.fail(errors.Newf("sstable: entry %d does not sort after the previous one", w.props.Entries))
	}
	large := w.isLarge(ikey, value)
	alone := w.opts.Values || makesLone(len(ikey), len(value)) && len(value) >= 2*w.opts.BlockSize
	if large || alone || w.fullEnough(ikey, value, shared) {
		if err := w.finishDataBlock(); err != nil {
			return err
		}
	}
	w.register(ikey, value, newUser)
	if large {
		return w.addLarge(ikey, value)
	}
	w.data.addShared(ikey, value, shared)
	w.lastKey = append(w.lastKey[:shared], ikey[shared:]...)
	if w.data.size() >= w.opts.BlockSize || w.opts.Values {
		return w.finishDataBlock()
	}
	return nil
}

// CoverSeq records that entries added with sequence number 0 originally had numbers up
// to seq: Properties.LargestSeq is at least that.
func (w *Writer) CoverSeq(seq uint64) { w.props.LargestSeq = max(w.props.LargestSeq, seq) }

// fullEnough reports whether to end the data block before an entry that would make it larger than BlockSize. Blocks
// slightly above 4 KiB would use 4.75 KiB each in a cache, and a second page of the file.
func (w *Writer) fullEnough(ikey, value []byte, shared int) bool {
	const header = 3 // bytes of an entry whose lengths are short
	size, most := w.data.size(), w.opts.BlockSize
	return size >= most-most/10 && size+header+len(ikey)-shared+len(value) > most && !w.data.empty()
}

// place compares ikey with the last key, with which it shares that many bytes. ok reports whether it sorts after the
// last key, and newUser whether its user key differs. In bytewise order the shared length usually decides.
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

// register indexes the block before an entry, and adds the entry to the filters and the properties.
func (w *Writer) register(ikey, value []byte, newUser bool) {
	if w.pending.exists {
		w.indexPending(ikey)
	}
	if newUser {
		w.addToFilters(base.UserKey(ikey))
	}
	w.count(ikey, value)
}

// count updates the properties.
func (w *Writer) count(ikey, value []byte) {
	p := &w.props
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	if p.Entries == 0 {
		w.smallest = append([]byte(nil), ikey...)
		p.SmallestSeq = seq
	}
	p.Entries++
	switch {
	case kind == base.KindDelete:
		p.Deletions++
	case kind == base.KindRef: // where a value is says nothing about its end
		w.lasting = true
	case w.opts.Expiry != nil:
		w.countExpiry(ikey, value)
	}
	p.RawKeyBytes += uint64(len(ikey))
	p.RawValueBytes += uint64(len(value))
	p.SmallestSeq = min(p.SmallestSeq, seq)
	p.LargestSeq = max(p.LargestSeq, seq)
}

// countExpiry updates the properties of expiry.
func (w *Writer) countExpiry(ikey, value []byte) {
	at, ok := w.opts.Expiry(base.UserKey(ikey), value)
	w.lasting = w.lasting || !ok
	w.props.LargestExpiry = max(w.props.LargestExpiry, at)
}

// finishDataBlock writes the pending data block. Another goroutine that compressed and wrote blocks, 128 KiB of them at
// a time, made loads 7 to 8 % slower on two processors, in order or not, with 5 to 9 % more CPU time.
func (w *Writer) finishDataBlock() error {
	if w.data.empty() {
		return nil
	}
	isLone := w.opts.Values || w.data.entries == 1 && makesLone(len(w.lastKey), w.data.valueLen)
	h, stored, err := w.appendBlock(w.data.finish(), w.opts.Compression)
	if err != nil {
		return err
	}
	w.content.AddStored(stored)
	w.data.reset()
	w.endBlock(h, isLone)
	return w.flushIfFull()
}

// endBlock makes the data block at h the pending one, and counts it.
func (w *Writer) endBlock(h handle, lone bool) {
	w.pending, w.lastOffset = pendingBlock{h, true, lone}, h.Offset
	w.props.DataBlocks++
	w.props.DataBytes += h.Size + blockTrailerLen
}

// indexPending adds the index entry of the pending block. next is the key after the block, nil at the end of the table.
func (w *Writer) indexPending(next []byte) {
	switch {
	case w.pending.lone:
		w.lone = w.lone.With(int(w.props.DataBlocks) - 1)
		w.scratch = append(w.scratch[:0], w.lastKey...)
	case next != nil:
		w.scratch = base.InternalSeparator(w.cmp, w.scratch[:0], w.lastKey, next)
	default:
		w.scratch = base.InternalSuccessor(w.cmp, w.scratch[:0], w.lastKey)
	}
	n := len(w.scratch)
	w.scratch = w.pending.Append(w.scratch)
	w.index.add(w.scratch[:n], w.scratch[n:])
	w.pending.exists = false
}

// writeBlock appends a block and its trailer to the file.
func (w *Writer) writeBlock(block []byte, kind Compression) (handle, error) {
	h, _, err := w.appendBlock(block, kind)
	if err != nil {
		return handle{}, err
	}
	return h, w.flushIfFull()
}

// appendBlock is writeBlock without a write. stored is the block in the buffer, with its trailer.
func (w *Writer) appendBlock(block []byte, kind Compression) (h handle, stored []byte, err error) {
	if len(block) > maxBlockLen {
		return handle{}, nil, w.fail(errors.Newf("sstable: a block of %d bytes; at most %d are supported", len(block), maxBlockLen))
	}
	h = handle{Offset: w.Size()}
	start := len(w.out)
	out, kind, err := appendCompressed(w.out, block, kind)
	if err != nil {
		return handle{}, nil, w.fail(errors.Wrap(err, "sstable: compressing a block"))
	}
	h.Size = uint64(len(out) - start)
	out = append(out, byte(kind))
	w.out = util.AppendFixed32(out, util.MaskCRC(util.CRC32C(out[start:])))
	return h, w.out[start:], nil
}

// flushIfFull writes the buffer if it is full.
func (w *Writer) flushIfFull() error {
	if len(w.out) < writeBufferBytes {
		return nil
	}
	return w.flushOut()
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

// write writes b to the file.
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

// Finish writes the remaining data, the filters, the properties, metaindex, index and
// footer. It neither syncs nor closes the file.
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
	if w.pending.exists {
		w.indexPending(nil)
	}
	if w.lasting {
		w.props.LargestExpiry = 0
	}
	w.props.ExpiryKeys = w.opts.ExpiryKeys
	for _, f := range w.filters {
		w.props.FilterKeys = uint64(f.keys) // the same for each
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

// finishTail writes the part of the file after the data blocks.
func (w *Writer) finishTail(filters []namedFilter) (err error) {
	var foot footer
	meta := metaEntries{}
	if err := w.writeFilters(filters, meta); err != nil {
		return err
	}
	if err := w.writeRanges(meta); err != nil {
		return err
	}
	if err := w.writeValueBlocks(meta); err != nil {
		return err
	}
	w.props.ContentHash = w.content.Property()
	props := blockWriter{interval: 1}
	encodeProperties(&props, &w.props)
	h, err := w.writeBlock(props.finish(), NoCompression)
	if err != nil {
		return err
	}
	meta[propertiesKey] = w.propertiesValue(h)
	// Uncompressed as well: tools of other stores cannot read a compressed metaindex.
	if foot.Metaindex, err = w.writeBlock(meta.block(), NoCompression); err != nil {
		return err
	}
	if foot.Index, err = w.writeBlock(w.index.finish(), w.opts.Compression); err != nil {
		return err
	}
	w.out = foot.Append(w.out)
	return w.flushOut()
}

// propertiesValue returns the metaindex value of the properties block at h.
func (w *Writer) propertiesValue(h handle) []byte {
	value := util.AppendUvarint64(h.Append(nil), w.lastOffset)
	if w.props.Entries == 0 {
		return value
	}
	return w.lone.Append(makeBounds(w.smallest, w.lastKey).append(value))
}

// Size returns the length of the file so far, in bytes, without the pending
// data block; after Finish, the length of the file.
func (w *Writer) Size() uint64 { return w.written + uint64(len(w.out)) }

// EstimatedSize returns the length of the file so far, in bytes, including the
// uncompressed size of the pending data block.
func (w *Writer) EstimatedSize() uint64 {
	if w.data.empty() {
		return w.Size()
	}
	return w.Size() + uint64(w.data.size())
}

// Smallest returns the first internal key added, or nil if there is none. The slice
// belongs to the Writer and does not change.
func (w *Writer) Smallest() []byte { return w.smallest }

// Largest returns the last internal key added, or nil if there is none. The slice
// belongs to the Writer and is valid until the next Add.
func (w *Writer) Largest() []byte {
	if w.props.Entries == 0 {
		return nil
	}
	return w.lastKey
}
