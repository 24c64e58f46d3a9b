package table

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/golang/snappy"

	"github.com/syndtr/goleveldb/leveldb/cache"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// maxSnappy is how many times as long as its stored bytes a block may be: Snappy stores 64 bytes in three.
const maxSnappy = 32

// Reader reads a table. It is safe for concurrent use.
type Reader struct {
	f     io.ReaderAt
	fd    storage.FileDesc
	size  int64
	cache *cache.NamespaceGetter // nil: blocks are read each time
	o     *opt.Options
	cmp   comparer.Comparer

	// mu guards err, which is ErrReaderReleased after Release.
	mu      sync.RWMutex
	err     error
	index   *block
	dataEnd int64
	filter  *filterReader // nil: none that is known
}

// NewReader returns a Reader of the table f, which has size bytes. fd names the file in errors. cache may be nil; bpool
// has no effect. If the end of the table is damaged, the methods of the Reader return that error.
func NewReader(f io.ReaderAt, size int64, fd storage.FileDesc, cache *cache.NamespaceGetter, bpool *util.BufferPool, o *opt.Options) (*Reader, error) {
	if f == nil {
		return nil, errors.New("leveldb/table: nil file")
	}
	r := &Reader{f: f, fd: fd, size: size, cache: cache, o: o, cmp: o.GetComparer()}
	if err := r.readEnd(); errors.IsCorrupted(err) {
		r.err = err
	} else if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) corrupted(pos, size int64, kind, reason string) error {
	return errors.NewErrCorrupted(r.fd, &ErrCorrupted{Pos: pos, Size: size, Kind: kind, Reason: reason})
}

func (r *Reader) readEnd() error {
	if r.size < footerSize {
		return r.corrupted(0, r.size, "table", "too small")
	}
	at := r.size - footerSize
	footer := make([]byte, footerSize)
	if _, err := r.f.ReadAt(footer, at); err != nil && err != io.EOF {
		return err
	}
	meta, n := parseHandle(footer)
	index, m := parseHandle(footer[n:])
	switch {
	case binary.LittleEndian.Uint64(footer[footerSize-8:]) != magic:
		return r.corrupted(at, footerSize, "table-footer", "bad magic number")
	case n == 0:
		return r.corrupted(at, footerSize, "table-footer", "bad metaindex block handle")
	case m == 0:
		return r.corrupted(at, footerSize, "table-footer", "bad index block handle")
	}
	r.dataEnd = int64(meta.offset)
	var err error
	if r.index, err = r.readBlock(index, "index-block"); err != nil {
		return err
	}
	if err := r.checkIndex(index); err != nil {
		return err
	}
	entries, err := r.readBlock(meta, "meta-block")
	if err != nil {
		return err
	}
	r.filter = r.findFilter(entries)
	if r.filter != nil { // the filter is the first block after the data
		r.dataEnd = min(r.dataEnd, int64(r.filter.handle.offset))
	}
	return nil
}

// checkIndex returns an error if the index lists bytes of the file twice: an iteration would read and decompress far
// more than the file has. Handles that do not decode are errors when they are used.
func (r *Reader) checkIndex(at blockHandle) error {
	end := uint64(0)
	for _, e := range r.index.entries {
		h, n := parseHandle(e.value)
		if n == 0 || h.size > uint64(r.size) || h.offset > uint64(r.size) {
			continue
		}
		if h.offset < end {
			return r.corrupted(int64(at.offset), int64(at.size), "index-block", "data blocks overlap or are out of order")
		}
		end = h.offset + h.size + trailerSize
	}
	return nil
}

// findFilter returns the reader of the first filter that the options know.
func (r *Reader) findFilter(meta *block) *filterReader {
	known := append([]filter.Filter{r.o.GetFilter()}, r.o.GetAltFilters()...)
	for _, e := range meta.entries {
		name, ok := strings.CutPrefix(string(e.key), filterPrefix)
		h, n := parseHandle(e.value)
		if !ok || n == 0 {
			continue
		}
		for _, policy := range known {
			if policy != nil && policy.Name() == name {
				return &filterReader{policy: policy, handle: h}
			}
		}
	}
	return nil
}

// readRaw reads and verifies the bytes of a block.
func (r *Reader) readRaw(h blockHandle, kind string) ([]byte, error) {
	if h.offset > uint64(r.size) || h.size > uint64(r.size)-h.offset || uint64(r.size)-h.offset-h.size < trailerSize {
		return nil, r.corrupted(int64(h.offset), int64(h.size), kind, "exceeds the file")
	}
	stored := make([]byte, h.size+trailerSize)
	if _, err := r.f.ReadAt(stored, int64(h.offset)); err != nil && err != io.EOF {
		return nil, err
	}
	content := stored[:h.size+1]
	want, got := binary.LittleEndian.Uint32(stored[h.size+1:]), util.NewCRC(content).Value()
	if got != want {
		return nil, r.corrupted(int64(h.offset), int64(h.size), kind, fmt.Sprintf("checksum mismatch, want=%#x got=%#x", want, got))
	}
	switch content[h.size] {
	case storedPlain:
		return content[:h.size], nil
	case storedSnappy:
		claimed, err := snappy.DecodedLen(content[:h.size])
		if err == nil && uint64(claimed) > maxSnappy*h.size+64 {
			err = snappy.ErrCorrupt // no writer makes so much of so little; it is allocated at once
		}
		var data []byte
		if err == nil {
			data, err = snappy.Decode(nil, content[:h.size])
		}
		if err != nil {
			return nil, r.corrupted(int64(h.offset), int64(h.size), kind, err.Error())
		}
		return data, nil
	}
	return nil, r.corrupted(int64(h.offset), int64(h.size), kind, "unknown compression")
}

func (r *Reader) readBlock(h blockHandle, kind string) (*block, error) {
	data, err := r.readRaw(h, kind)
	if err != nil {
		return nil, err
	}
	b, reason := parseBlock(data, r.cmp)
	if reason != "" {
		return nil, r.corrupted(int64(h.offset), int64(h.size), kind, reason)
	}
	return b, nil
}

// dataBlock returns the data block of an index entry, from the cache if it is there.
func (r *Reader) dataBlock(i int, ro *opt.ReadOptions) (*block, error) {
	h, n := parseHandle(r.index.entries[i].value)
	if n == 0 {
		return nil, r.corrupted(0, 0, "index-block", "bad data block handle")
	}
	if r.cache == nil {
		return r.readBlock(h, "data-block")
	}
	var err error
	fill := func() (int, cache.Value) {
		var b *block
		if b, err = r.readBlock(h, "data-block"); err != nil {
			return 0, nil
		}
		return int(h.size), b
	}
	if ro.GetDontFillCache() {
		fill = nil
	}
	if handle := r.cache.Get(h.offset, fill); handle != nil {
		defer handle.Release()
		return handle.Value().(*block), nil
	}
	if err != nil {
		return nil, err
	}
	return r.readBlock(h, "data-block") // not to be cached
}

// find returns the first entry at or after key.
func (r *Reader) find(key []byte, filtered bool, ro *opt.ReadOptions) (entry, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.err != nil {
		return entry{}, r.err
	}
	first := r.index.Search(key)
	for i := first; i < r.index.Len(); i++ {
		if filtered && i == first && !r.mayContain(i, key) {
			return entry{}, ErrNotFound
		}
		b, err := r.dataBlock(i, ro)
		if err != nil {
			return entry{}, err
		}
		if at := b.Search(key); at < b.Len() {
			return b.entries[at], nil
		}
	}
	return entry{}, ErrNotFound
}

func (r *Reader) mayContain(i int, key []byte) bool {
	h, n := parseHandle(r.index.entries[i].value)
	return r.filter == nil || n == 0 || r.filter.mayContain(r, h.offset, key)
}

// Find returns the first entry whose key is not before key, or ErrNotFound. With filtered, a filter may
// answer for the block in which key would be. The slices belong to the caller.
func (r *Reader) Find(key []byte, filtered bool, ro *opt.ReadOptions) (rkey, value []byte, err error) {
	e, err := r.find(key, filtered, ro)
	if err != nil {
		return nil, nil, err
	}
	return append([]byte{}, e.key...), append([]byte{}, e.value...), nil
}

// FindKey is Find without the value.
func (r *Reader) FindKey(key []byte, filtered bool, ro *opt.ReadOptions) (rkey []byte, err error) {
	e, err := r.find(key, filtered, ro)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, e.key...), nil
}

// Get returns the value of key, which belongs to the caller, or ErrNotFound.
func (r *Reader) Get(key []byte, ro *opt.ReadOptions) (value []byte, err error) {
	e, err := r.find(key, false, ro)
	if err == nil && r.cmp.Compare(e.key, key) != 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, e.value...), nil
}

// OffsetOf returns about where in the file key is, or would be.
func (r *Reader) OffsetOf(key []byte) (offset int64, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.err != nil {
		return 0, r.err
	}
	i := r.index.Search(key)
	if i == r.index.Len() {
		return r.dataEnd, nil
	}
	h, n := parseHandle(r.index.entries[i].value)
	if n == 0 {
		return 0, r.corrupted(0, 0, "index-block", "bad data block handle")
	}
	return int64(h.offset), nil
}

// NewIterator returns an iterator over the keys in slice; nil means all.
func (r *Reader) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.err != nil {
		return iterator.NewEmptyIterator(r.err)
	}
	b := &blocks{r: r, ro: ro, to: r.index.Len()}
	if slice != nil {
		b.slice = *slice
	}
	if b.slice.Start != nil {
		b.from = r.index.Search(b.slice.Start)
	}
	if b.slice.Limit != nil {
		b.to = max(min(r.index.Search(b.slice.Limit)+1, b.to), b.from)
	}
	return iterator.NewIndexedIterator(iterator.NewArrayIndexer(b), opt.GetStrict(r.o, ro, opt.StrictReader))
}

// Release makes the Reader unusable, and closes the file if that is an io.Closer.
func (r *Reader) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == ErrReaderReleased {
		return
	}
	if c, ok := r.f.(io.Closer); ok {
		_ = c.Close()
	}
	r.err = ErrReaderReleased
}

// blocks are the data blocks of a range of keys. It implements iterator.ArrayIndexer.
type blocks struct {
	r        *Reader
	ro       *opt.ReadOptions
	slice    util.Range
	from, to int // of the index
}

func (b *blocks) Len() int { return b.to - b.from }

func (b *blocks) Search(key []byte) int {
	return min(max(b.r.index.Search(key), b.from), b.to) - b.from
}

func (b *blocks) Get(i int) iterator.Iterator {
	b.r.mu.RLock()
	defer b.r.mu.RUnlock()
	if b.r.err != nil {
		return iterator.NewEmptyIterator(b.r.err)
	}
	data, err := b.r.dataBlock(b.from+i, b.ro)
	if err != nil {
		return iterator.NewEmptyIterator(err)
	}
	return iterator.NewArrayIterator(data.within(b.slice.Start, b.slice.Limit))
}

// filterReader reads the filter block, which is loaded when it is first needed.
type filterReader struct {
	policy filter.Filter
	handle blockHandle
	load   sync.Once
	data   []byte // nil: unusable
}

// mayContain reports whether the data block at an offset may contain key.
func (f *filterReader) mayContain(r *Reader, offset uint64, key []byte) bool {
	f.load.Do(func() { f.data, _ = r.readRaw(f.handle, "filter-block") })
	n := len(f.data)
	if n < 5 {
		return true
	}
	shift := uint(f.data[n-1])
	table := uint64(binary.LittleEndian.Uint32(f.data[n-5:])) // where the offsets begin
	at := table + 4*(offset>>shift)
	if shift > 63 || table > uint64(n-5) || at+8 > uint64(n-1) {
		return true
	}
	start, end := binary.LittleEndian.Uint32(f.data[at:]), binary.LittleEndian.Uint32(f.data[at+4:])
	if start > end || uint64(end) > table {
		return true
	}
	return f.policy.Contains(f.data[start:end], key)
}
