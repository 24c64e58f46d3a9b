package sstable

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base/errors"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/tail"
	"github.com/sievedb/sievedb/internal/limit/prefetch"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// ErrReaderClosed is returned by a Reader that would have to read its file after the last reference to it was dropped.
// A caller that got the table from a version should retry with the newest version.
var ErrReaderClosed = errors.Sentinel("sievedb: table reader closed")

// ReaderOptions say how a table is read.
type ReaderOptions struct {
	// Comparer orders the user keys; it must be the writer's. Nil means sievedb.Bytewise.
	Comparer *sievedb.Comparer
	// Policies are the known filter policies, the best first, at most MaxPolicies. Open
	// loads the first of them that the table lists and whose filter is not damaged. It
	// ignores nil and filter.None. All Readers that share Lookups must have the same.
	Policies []filter.Policy
	// RangePolicies are the policies of the range filters that are loaded and used, if the
	// table has them; the comparer must be sievedb.Bytewise.
	RangePolicies []rangefilter.Policy
	// Cache keeps data blocks. With nil, every read is from disk.
	Cache *BlockCache
	// Memory, if not nil, counts the memory of the filters and of the index, from when they are read until
	// the last reference to the Reader is dropped.
	Memory MemoryUse
	// Name is the file's path, for errors.
	Name string
	// Smallest and Largest are the internal keys that the table must begin and end with, as recorded in the MANIFEST;
	// Open rejects a file that is another table. If one is nil, nothing is checked. The slices are not retained.
	Smallest, Largest []byte
	// Tail says how much of the file's end to read, from the store's other tables, and is
	// updated by Open. It may be nil.
	Tail *TailGuess
	// Prefetch requests tables from the system of which many blocks are read. It may be nil.
	Prefetch *prefetch.Requests
	// Released, if not nil, is called once, without a lock, after the last reference to a Reader that Open
	// returned was dropped and its file was closed.
	Released func(*Reader)
}

// Reader reads one table. Its methods may be called from any goroutine.
//
// It holds the filter from Open on, and the index: as it is stored if Open read it, and decoded from the first call
// that needs it. See the package comment for when its file is closed.
type Reader struct {
	// Fixed by Open. The fields that each lookup needs come first, in one cache line. lines is the filter of the whole
	// table if it is a cache-line filter (hasLines), and lineSlot is where a Lookup keeps its policy's hash.
	lines    filter.CacheLineProbe
	hasLines bool
	lineSlot uint8
	filter   *filterBlock // nil if there is none to use

	ranges        []rangeFilter
	rangePolicies []rangefilter.Policy

	cmp      *base.Comparer
	policies []filter.Policy
	cache    *BlockCache
	name     string
	file     vfs.File
	layout
	status  FilterStatus
	marks   marks
	opening *tail.Opening // nil when Open is done
	cost    OpenCost      // of Open

	index  atomic.Pointer[index] // nil until it is needed
	loadMu sync.Mutex            // held while the index or the properties are loaded
	// storedIndex is the unchecked index block with its trailer, if Open read it, until
	// it is needed. loadMu guards stores to it.
	storedIndex atomic.Pointer[[]byte]

	loadedProps atomic.Pointer[Properties]

	memory *memory // nil: nothing is counted

	lifetime
	demand prefetch.Demand // written by reads from disk, as lifetime is: far from what each lookup needs
}

// layout has the positions of a table's parts in the file.
type layout struct {
	limit uint64 // bytes before the footer
	foot  footer
	// metaStart is where the first block after the data blocks begins.
	metaStart uint64
	meta      metaHandles
}

// metaHandles are of blocks that the metaindex lists; the size is 0 if the table has none.
type metaHandles struct {
	properties handle
	refs       handle // of the block of refSums
	ids        handle // of the IDs of a value table
}

// lifetime tracks whether a Reader is still needed.
type lifetime struct {
	refs    atomic.Int64 // the base reference, open iterators, reads from disk
	closed  atomic.Bool  // the base reference was dropped
	dropped atomic.Bool  // DropBlocks was called

	released func(*Reader) // ReaderOptions.Released
	// fileMu is shared by reads from the file. A read has a reference, so only CloseFile waits for reads.
	fileMu     sync.RWMutex
	fileClosed bool
}

// onlyIO returns err unless the bytes are damaged, or a newer version wrote them.
func onlyIO(err error) error {
	if base.IsUnreadable(err) {
		return nil
	}
	return err
}

// readAt fills buf from the file. If the file ends too early, the error is corruption, since the range was checked
// against the file's size; but only if the size confirms it. While the table is opened, bytes that the tail has are
// copied from there. After CloseFile the error is base.ErrClosed. The caller must have a reference.
func (r *Reader) readAt(buf []byte, offset uint64, part string) error {
	if r.opening != nil {
		if buf = r.opening.Take(buf, offset); len(buf) == 0 {
			return nil
		}
	}
	r.fileMu.RLock()
	defer r.fileMu.RUnlock() // even if a user's file system panics
	if r.fileClosed {
		return base.ErrClosed // as it is, since callers compare with it
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

// readBlock reads, checks and decompresses the block at h, whose handle was checked, into new memory.
func (r *Reader) readBlock(h handle, part string) ([]byte, error) {
	return r.readBlockInto(codec.Sized(nil, int(h.Size)+blockTrailerLen), h, part)
}

// readBlockInto is readBlock with memory for the stored block and its trailer, which the result may be part of.
func (r *Reader) readBlockInto(buf []byte, h handle, part string) ([]byte, error) {
	if err := r.readAt(buf, h.Offset, part); err != nil {
		return nil, err
	}
	data, _, err := openBlock(buf, nil, part)
	return data, base.InFile(err, r.name, int64(h.Offset))
}

// blockIfOpen is readBlock for callers without a reference.
func (r *Reader) blockIfOpen(h handle, part string) ([]byte, error) {
	if !r.Ref() {
		return nil, ErrReaderClosed
	}
	defer r.Unref()
	return r.readBlock(h, part)
}

// openBlock checks the trailer of a stored block, and returns the block decompressed:
// within stored itself if kind is NoCompression, else in buf or in new memory, see
// decompress. It checks the checksum first, so that accidental damage never reaches a
// decoder.
func openBlock(stored, buf []byte, part string) (data []byte, kind Compression, err error) {
	if err := checkStored(stored, part); err != nil {
		return nil, 0, err
	}
	n := len(stored) - blockTrailerLen
	kind = Compression(stored[n])
	data, err = decompress(kind, stored[:n], buf, part)
	return data, kind, err
}

// checkStored verifies the checksum of a block with its trailer.
func checkStored(stored []byte, part string) error {
	n := len(stored) - blockTrailerLen
	want := util.UnmaskCRC(util.Fixed32(stored[n+1:]))
	if got := util.CRC32C(stored[:n+1]); got != want {
		return base.Corruptf(part, -1, "checksum of %d bytes is %#08x; want %#08x", n+1, got, want)
	}
	return nil
}

// readData reads data block i from disk, into new memory.
func (r *Reader) readData(ix *index, i int) (Block, error) {
	h := ix.Handle(i)
	data, err := r.blockIfOpen(h, dataPart)
	if err != nil {
		return Block{}, err
	}
	b, err := newBlock(data, dataPart)
	return b, base.InFile(err, r.name, int64(h.Offset))
}

const dataPart = "data block"

// loadData returns data block i through the cache after a miss, possibly in sc's
// memory. bytesRead is 0 if it shared another goroutine's read. It is separate from
// Get and not inlined, so that only misses pay for its closure.
//
//go:noinline
func (r *Reader) loadData(ix *index, i int, sc *scratch, fill bool) (b *Block, bytesRead uint32, err error) {
	stored := uint32(ix.Size(i) + blockTrailerLen)
	if r.cache == nil || !fill {
		_, _, err = r.readInto(ix, i, sc)
		return &sc.block, stored, err
	}
	b, loaded, err := r.cache.load(&ix.slots[i], sc, r.cmp.IsBytewise(),
		func() ([]byte, Compression, error) { return r.readInto(ix, i, sc) })
	if loaded {
		bytesRead = stored
	}
	return b, bytesRead, err
}

// largeStored is a size in bytes below which few blocks have more than maxScratch when they are decompressed.
const largeStored = maxScratch / 32

// readInto reads data block i from disk and makes it sc.block. It also returns the
// block as it is stored, in sc's memory.
func (r *Reader) readInto(ix *index, i int, sc *scratch) (raw []byte, kind Compression, err error) {
	if !r.Ref() {
		return nil, 0, ErrReaderClosed
	}
	defer r.Unref()
	h := ix.Handle(i)
	size := int(h.Size) + blockTrailerLen
	sc.stored = codec.Sized(codec.Large(sc.stored, size), size)
	if err := r.readAt(sc.stored, h.Offset, dataPart); err != nil {
		return nil, 0, err
	}
	r.demand.Count(h.Offset, r.limit)
	if h.Size >= largeStored && Compression(sc.stored[h.Size]) != NoCompression {
		n, _ := codec.DecodedLen(sc.stored[h.Size], sc.stored[:h.Size])
		sc.decoded = codec.Large(sc.decoded, int(min(n, codec.MaxLarge+1)))
	}
	raw, kind, err = sc.open(sc.stored)
	return raw, kind, base.InFile(err, r.name, int64(h.Offset))
}

// Ref takes a reference that keeps the file open. It returns false if that is closed already.
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

// Unref drops a reference that Ref took. Dropping the last one closes the file.
func (r *Reader) Unref() {
	_ = r.unref() // closing a file that was only read cannot lose data
}

// unref drops a reference. If it is the last one, unref returns the error of closing the file.
func (r *Reader) unref() error {
	switch n := r.refs.Add(-1); {
	case n == 0:
		if r.released != nil {
			defer r.released(r)
		}
		r.ReturnMemory()
		return r.closeFile()
	case n < 0:
		panic("sstable: Unref without Ref")
	}
	return nil
}

// closeFile waits for reads under way and closes the file, unless it is closed.
func (r *Reader) closeFile() error {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	if r.fileClosed {
		return nil
	}
	r.fileClosed = true
	return r.file.Close()
}

// CloseFile waits for running reads of the file and closes it, even if there are references. Their holders can
// still use what is in memory and must still drop them; what would read the file returns sievedb's ErrClosed.
// If the file is closed already, CloseFile does nothing.
func (r *Reader) CloseFile() {
	_ = r.closeFile() // closing a file that was only read cannot lose data
}

// Close drops the reference that Open took; further calls do nothing. The file is closed once open iterators and reads
// under way are done as well. If Close closes it, it returns the error of that. Later Gets still use data in memory,
// including cached blocks.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	return r.unref()
}

// DropBlocks permanently removes the table's blocks from the cache. It is meant for a
// Reader that is no longer used, or whose table was deleted.
func (r *Reader) DropBlocks() {
	r.dropped.Store(true)
	if ix := r.index.Load(); ix != nil && r.cache != nil {
		r.cache.cache.Drop(ix.slots)
	}
}

// ApproximateOffset returns the approximate offset in the file, in bytes, of the first entry at or after the internal
// key: that of its data block, or the end of the data blocks. It may read the index.
func (r *Reader) ApproximateOffset(ikey []byte) (uint64, error) {
	ix, err := r.needIndex()
	if err != nil {
		return 0, err
	}
	if i := ix.find(r.cmp, base.UserKey(ikey), base.Trailer(ikey)); i < ix.Len() {
		return ix.Offset(i), nil
	}
	return ix.End(), nil
}

// Properties returns the properties that the writer stored. ok is false if there are none, as in tables of other
// programs, or if they cannot be read. Once they have been read, by Open or by a call, they are kept in memory.
func (r *Reader) Properties() (p Properties, ok bool) {
	p, ok, _ = r.CheckProperties()
	return p, ok
}

// CheckProperties is Properties, and says why they cannot be read; err is nil if there are none.
func (r *Reader) CheckProperties() (p Properties, ok bool, err error) {
	if p, ok := r.KnownProperties(); ok {
		return p, true, nil
	}
	r.loadMu.Lock()
	defer r.loadMu.Unlock()
	if p := r.loadedProps.Load(); p != nil {
		return *p, true, nil
	}
	if r.meta.properties.Size == 0 {
		return Properties{}, false, r.metaindexErr()
	}
	data, err := r.metaBlock(r.meta.properties, propertiesPart)
	if err != nil {
		return Properties{}, false, err
	}
	if p, err = decodeProperties(data); err != nil {
		return Properties{}, false, base.InFile(err, r.name, int64(r.meta.properties.Offset))
	}
	r.loadedProps.Store(&p)
	return p, true, nil
}

// KnownProperties returns the table's properties if they were read already, which Open usually does.
func (r *Reader) KnownProperties() (p Properties, ok bool) {
	if known := r.loadedProps.Load(); known != nil {
		return *known, true
	}
	return Properties{}, false
}

// FilterSize returns the memory that the filter pins, in bytes.
func (r *Reader) FilterSize() uint64 {
	if r.filter == nil {
		return 0
	}
	return uint64(cap(r.filter.data))
}

// IndexSize returns the memory that the index pins, in bytes: decoded if it has been needed,
// else as it is stored if Open read it, else 0.
func (r *Reader) IndexSize() uint64 {
	if ix := r.index.Load(); ix != nil {
		return ix.memBytes()
	}
	if stored := r.storedIndex.Load(); stored != nil {
		return uint64(cap(*stored))
	}
	return 0
}

// HasIndex reports whether the index is in memory and decoded.
func (r *Reader) HasIndex() bool { return r.index.Load() != nil }

// OpenCost is how much the opening of a table read from its file.
type OpenCost = tail.Cost

// TailGuess says how much of a table's end Open should read. The zero TailGuess is ready for use, by any goroutine.
type TailGuess = tail.Guess

// OpenCost returns how much Open read.
func (r *Reader) OpenCost() OpenCost { return r.cost }

// FilterPolicy returns the name of the policy whose filter lookups use, or "" if there is none.
func (r *Reader) FilterPolicy() string {
	if r.filter == nil {
		return ""
	}
	return r.status.Policy
}

// FilterStatus returns which filter of the table is used, or why none is.
func (r *Reader) FilterStatus() FilterStatus { return r.status }

// located adds the file's name and the offset of data block i to an error.
func (r *Reader) located(err error, ix *index, i int) error {
	return base.InFile(err, r.name, int64(ix.Offset(i)))
}
