package sstable

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/errors"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// ErrReaderClosed says that a Reader would have had to read its file after the
// last reference to it was gone. Whoever asks tables through versions takes the
// newest version and asks again.
var ErrReaderClosed = errors.Sentinel("sievedb: table reader closed")

// ReaderOptions say how a table is read.
type ReaderOptions struct {
	// Comparer orders the user keys; it must be the writer's. Nil: sievedb.Bytewise.
	Comparer *sievedb.Comparer
	// Policies are the filter policies that are known, the best first, at most
	// MaxPolicies; of the filters that a table lists the first known one that is not
	// damaged is loaded and used. nil and filter.None in it are passed over. All
	// Readers that share Lookups have the same.
	Policies []filter.Policy
	// RangePolicies are those of the filters of ranges that are loaded and asked, where the
	// table has them; the comparer must be sievedb.Bytewise.
	RangePolicies []rangefilter.Policy
	// Cache keeps data blocks. Nil: every read is from disk.
	Cache *BlockCache
	// ChargeCache takes the memory of the filter and of the index out of the cache's
	// budget, from when they are read to Close.
	ChargeCache bool
	// Name is the file's path, for errors.
	Name string
	// Smallest and Largest are the internal keys that the table must begin and end
	// with, as the MANIFEST says: a file that is another table is refused by Open.
	// Nil: not checked. They are not kept.
	Smallest, Largest []byte
	// Tail is what was learnt from the store's other tables, and learns from this one.
	// Nil: nothing was.
	Tail *TailGuess
}

// Reader reads one table. Its methods may be called from any goroutine.
//
// What it holds for the table's life: the filter, from Open, and the index, from
// Open as it is stored, if that has come across it, and decoded from the first call
// that needs it. See the package comment for when its file is closed.
type Reader struct {
	// Fixed by Open. What each lookup needs comes first, in one cache line: lines is
	// the filter of the whole table again, if it is a cache-line filter (hasLines), and
	// lineSlot its policy's place.
	lines    filter.CacheLineProbe
	hasLines bool
	lineSlot uint8
	filter   *filterBlock // nil where nothing can be ruled out

	ranges        []rangeFilter
	rangePolicies []rangefilter.Policy

	cmp      *base.Comparer
	policies []filter.Policy
	cache    *BlockCache
	name     string
	file     vfs.File
	layout
	status  FilterStatus
	bounds  bounds // the mark of the first and last key, where marked is set
	marked  bool
	opening *opening // nil when Open is done
	cost    OpenCost // of Open

	index  atomic.Pointer[index] // nil until it is needed
	loadMu sync.Mutex            // held while the index or the properties are loaded
	// storedIndex is the index block with its trailer, unchecked, if Open came across
	// it and until it is needed. Stored to under loadMu.
	storedIndex atomic.Pointer[[]byte]

	loadedProps atomic.Pointer[Properties]

	charges bool         // ReaderOptions.ChargeCache, with a cache
	charged atomic.Int64 // of the cache's budget

	lifetime
}

// layout says where in the file the parts of a table are.
type layout struct {
	limit uint64 // bytes before the footer
	foot  footer
	// metaStart is where the first block begins that holds no data: all data blocks lie before it.
	metaStart uint64
	props     handle // of the properties block; size 0: the table has none
}

// lifetime says who still needs a Reader.
type lifetime struct {
	refs    atomic.Int64 // the base reference, open iterators, reads from disk
	closed  atomic.Bool  // the base reference was dropped
	dropped atomic.Bool  // DropBlocks was called
}

// onlyIO returns err unless it is corruption.
func onlyIO(err error) error {
	if errors.Is(err, base.ErrCorruption) {
		return nil
	}
	return err
}

// readAt fills buf from the file. The end of the file within it is corruption:
// the range was checked against the file's size. But an end that the size does
// not bear out says nothing about the bytes. While the table is opened, what the
// tail has is taken from there.
func (r *Reader) readAt(buf []byte, offset uint64, part string) error {
	if r.opening != nil {
		if buf = r.opening.take(buf, offset); len(buf) == 0 {
			return nil
		}
	}
	n, err := vfs.ReadFull(r.file, buf, int64(offset))
	if err == nil {
		return nil
	}
	if err == io.ErrUnexpectedEOF {
		size, sizeErr := r.file.Size()
		if sizeErr == nil && uint64(size) < offset+uint64(len(buf)) {
			err = base.Corruptf(part, int64(offset), "the file ends after %d of its %d bytes", n, len(buf))
			return base.InFile(err, r.name, -1)
		}
	}
	return base.InFile(err, r.name, int64(offset))
}

// readBlock reads, checks and decompresses the block at h, whose handle was
// checked, into memory of its own.
func (r *Reader) readBlock(h handle, part string) ([]byte, error) {
	return r.readBlockInto(sized(nil, int(h.size)+blockTrailerLen), h, part)
}

// readBlockInto is readBlock with memory for the stored block and its trailer,
// which the result may be part of.
func (r *Reader) readBlockInto(buf []byte, h handle, part string) ([]byte, error) {
	if err := r.readAt(buf, h.offset, part); err != nil {
		return nil, err
	}
	data, _, err := openBlock(buf, nil, part)
	return data, base.InFile(err, r.name, int64(h.offset))
}

// openBlock checks the trailer of a stored block, and returns the block
// decompressed: within stored itself where kind says that it is not compressed,
// else in buf or in new memory, see decompress. The checksum comes first, so that
// chance damage never reaches a decoder.
func openBlock(stored, buf []byte, part string) (data []byte, kind Compression, err error) {
	n := len(stored) - blockTrailerLen
	want := util.UnmaskCRC(util.Fixed32(stored[n+1:]))
	if got := util.CRC32C(stored[:n+1]); got != want {
		return nil, 0, base.Corruptf(part, -1, "checksum of %d bytes is %#08x; want %#08x", n+1, got, want)
	}
	kind = Compression(stored[n])
	data, err = decompress(kind, stored[:n], buf, part)
	return data, kind, err
}

// readData reads data block i from disk, into memory of its own.
func (r *Reader) readData(ix *index, i int) (Block, error) {
	if !r.Ref() {
		return Block{}, ErrReaderClosed
	}
	defer r.Unref()
	h := ix.block(i)
	data, err := r.readBlock(h, dataPart)
	if err != nil {
		return Block{}, err
	}
	b, err := newBlock(data, dataPart)
	return b, base.InFile(err, r.name, int64(h.offset))
}

const dataPart = "data block"

// loadData returns data block i through the cache after a miss, possibly in sc's
// memory; bytesRead is 0 where another goroutine's read was shared. It is apart
// from Get and not inlined so that its closure costs only those who miss.
//
//go:noinline
func (r *Reader) loadData(ix *index, i int, sc *scratch) (b *Block, bytesRead uint32, err error) {
	stored := ix.sizes[i] + blockTrailerLen
	if r.cache == nil {
		_, _, err = r.readInto(ix, i, sc)
		return &sc.block, stored, err
	}
	b, loaded, err := r.cache.load(&ix.slots[i], sc, r.cmp.IsBytewise(), func() ([]byte, Compression, error) { return r.readInto(ix, i, sc) })
	if loaded {
		bytesRead = stored
	}
	return b, bytesRead, err
}

// readInto reads data block i from disk and makes it sc.block. It returns the
// block as it is stored, in sc's memory too.
func (r *Reader) readInto(ix *index, i int, sc *scratch) (raw []byte, kind Compression, err error) {
	if !r.Ref() {
		return nil, 0, ErrReaderClosed
	}
	defer r.Unref()
	h := ix.block(i)
	sc.stored = sized(sc.stored, int(h.size)+blockTrailerLen)
	if err := r.readAt(sc.stored, h.offset, dataPart); err != nil {
		return nil, 0, err
	}
	data, kind, err := openBlock(sc.stored, sc.decoded, dataPart)
	if err == nil {
		if kind != NoCompression {
			sc.decoded = data
		}
		sc.block, err = newBlock(data, dataPart)
	}
	return sc.stored[:h.size], kind, base.InFile(err, r.name, int64(h.offset))
}

// Ref takes a reference that keeps the file open, unless it is closed already.
func (r *Reader) Ref() bool {
	for {
		n := r.refs.Load()
		if n == 0 {
			return false
		}
		if r.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unref gives back a reference that Ref took. The last one closes the file.
func (r *Reader) Unref() {
	_ = r.unref() // a file that was only read has nothing to lose
}

// unref returns the error of closing the file, if it was the one to do that.
func (r *Reader) unref() error {
	switch n := r.refs.Add(-1); {
	case n == 0:
		return r.file.Close()
	case n < 0:
		panic("sstable: Unref without Ref")
	}
	return nil
}

// Close drops the reference that Open took; only the first call does anything.
// The file is closed once open iterators and reads under way are done as well;
// where that is at once, Close returns the file's error. What is in memory,
// cached blocks included, still answers Gets.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.charge(0)
	return r.unref()
}

// charge takes size bytes more out of the cache's budget, if that is wanted, or gives
// all back once the Reader is closed.
func (r *Reader) charge(size int64) {
	if !r.charges {
		return
	}
	r.cache.cache.Charge(size)
	r.charged.Add(size)
	if r.closed.Load() { // perhaps only since a moment ago: then this is the last to know
		r.cache.cache.Charge(-r.charged.Swap(0))
	}
}

// DropBlocks takes the table's blocks out of the cache, for good: for a Reader
// that nobody will ask again, or whose table was deleted.
func (r *Reader) DropBlocks() {
	r.dropped.Store(true)
	if ix := r.index.Load(); ix != nil && r.cache != nil {
		r.cache.cache.Drop(ix.slots)
	}
}

// ApproximateOffset returns where in the file, in bytes, the entries at or
// behind the internal key begin: the offset of its data block, or the end of
// the data. It may read the index.
func (r *Reader) ApproximateOffset(ikey []byte) (uint64, error) {
	ix := r.index.Load()
	if ix == nil {
		var err error
		if ix, _, err = r.loadIndex(); err != nil {
			return 0, err
		}
	}
	if i := ix.find(r.cmp, base.UserKey(ikey), base.Trailer(ikey)); i < ix.n {
		return ix.offsets[i], nil
	}
	return ix.endOfData(), nil
}

// Properties returns what the writer stored about the table; ok is false where
// it stored nothing, as other writers do, or it cannot be read. It reads from disk
// at most once, and not at all if Open came across them.
func (r *Reader) Properties() (p Properties, ok bool) {
	if p, ok := r.KnownProperties(); ok {
		return p, true
	}
	r.loadMu.Lock()
	defer r.loadMu.Unlock()
	if p := r.loadedProps.Load(); p != nil {
		return *p, true
	}
	if r.props.size == 0 || r.props.check(r.limit, "metaindex block", propertiesPart) != nil || !r.Ref() {
		return Properties{}, false
	}
	defer r.Unref()
	data, err := r.readBlock(r.props, propertiesPart)
	if err != nil {
		return Properties{}, false
	}
	if p, err = decodeProperties(data); err != nil {
		return Properties{}, false
	}
	r.loadedProps.Store(&p)
	return p, true
}

// KnownProperties returns the table's properties if they were read already, with the end
// of the table as a rule.
func (r *Reader) KnownProperties() (p Properties, ok bool) {
	if known := r.loadedProps.Load(); known != nil {
		return *known, true
	}
	return Properties{}, false
}

// FilterSize returns the bytes of memory that the filter pins.
func (r *Reader) FilterSize() uint64 {
	if r.filter == nil {
		return 0
	}
	return uint64(cap(r.filter.data))
}

// IndexSize returns the bytes of memory that the index pins: decoded once something
// needed it; before, as it is stored if Open came across it, else 0.
func (r *Reader) IndexSize() uint64 {
	if ix := r.index.Load(); ix != nil {
		return ix.memBytes()
	}
	if stored := r.storedIndex.Load(); stored != nil {
		return uint64(cap(*stored))
	}
	return 0
}

// OpenCost returns what Open read.
func (r *Reader) OpenCost() OpenCost { return r.cost }

// FilterPolicy returns the name of the policy whose filter lookups ask, "" for
// none.
func (r *Reader) FilterPolicy() string {
	if r.filter == nil {
		return ""
	}
	return r.status.Policy
}

// FilterStatus tells which filter the table has and why none is used.
func (r *Reader) FilterStatus() FilterStatus { return r.status }

// located adds to an error of data block i where that block is.
func (r *Reader) located(err error, ix *index, i int) error {
	return base.InFile(err, r.name, int64(ix.offsets[i]))
}
