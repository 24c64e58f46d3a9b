package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
)

// IterOptions say how a table is walked.
type IterOptions struct {
	// NoFillCache leaves the block cache as it is: blocks that it has are used,
	// others are read into a buffer of the iterator's own. For compactions.
	NoFillCache bool
	// ReadAhead is how many bytes, at most, one read from disk covers, for walks
	// in order; 0: a block at a time. Blocks read ahead do not go to the cache.
	ReadAhead int
	// Stats, where it is not nil, counts the blocks used. It belongs to the
	// iterator's goroutine; several iterators of one goroutine may share it.
	Stats *IterStats
}

// IterStats counts what iterators read.
type IterStats struct {
	BlocksFromCache uint64
	BlocksFromDisk  uint64
	BytesRead       uint64 // bytes from disk, index and trailers included
}

// Iter walks a table, a base.Iterator. It keeps the table's file open until it
// is closed.
type Iter struct {
	r     *Reader
	ix    *index
	opts  IterOptions
	stats *IterStats

	data   blockIter
	at     int // the data block that data is on; -1: none
	err    error
	closed bool

	scratch *scratch  // nil until a block has to be read or decompressed
	span    blockSpan // the blocks in scratch.stored, where they do not go to the cache
}

var _ base.Iterator = (*Iter)(nil)

// NewIter returns an iterator that is not positioned. It reads the index if it
// is not in memory. The iterator must be closed.
func (r *Reader) NewIter(o IterOptions) (*Iter, error) {
	if !r.Ref() {
		return nil, ErrReaderClosed
	}
	it := &Iter{r: r, opts: o, stats: o.Stats, at: -1}
	if it.stats == nil {
		it.stats = new(IterStats)
	}
	if it.ix = r.index.Load(); it.ix == nil {
		ix, n, err := r.loadIndex()
		if err != nil {
			r.Unref()
			return nil, err
		}
		it.ix = ix
		it.stats.BytesRead += uint64(n)
	}
	it.data.pos = -1
	return it, nil
}

// Valid implements base.Iterator.
func (it *Iter) Valid() bool { return it.data.pos >= 0 }

// Key implements base.Iterator.
func (it *Iter) Key() []byte { return it.data.key }

// Value implements base.Iterator.
func (it *Iter) Value() []byte { return it.data.Value() }

// Err implements base.Iterator.
func (it *Iter) Err() error { return it.err }

// First implements base.Iterator.
func (it *Iter) First() bool { return it.forwardFrom(0) }

// Last implements base.Iterator.
func (it *Iter) Last() bool { return it.backwardFrom(it.ix.n - 1) }

// Next implements base.Iterator.
func (it *Iter) Next() bool {
	if it.data.Next() {
		return true
	}
	return it.forwardFrom(it.at + 1)
}

// Prev implements base.Iterator.
func (it *Iter) Prev() bool {
	if it.data.Prev() {
		return true
	}
	return it.backwardFrom(it.at - 1)
}

// SeekGE implements base.Iterator.
func (it *Iter) SeekGE(ikey []byte) bool {
	userKey, trailer := base.UserKey(ikey), base.Trailer(ikey)
	i := it.ix.find(it.r.cmp, userKey, trailer)
	if i == it.ix.n || !it.load(i, true) {
		it.data.unposition()
		return false
	}
	if it.data.seekGE(userKey, trailer) {
		return true
	}
	return it.forwardFrom(i + 1)
}

// SeekLT implements base.Iterator.
func (it *Iter) SeekLT(ikey []byte) bool {
	i := it.ix.find(it.r.cmp, base.UserKey(ikey), base.Trailer(ikey))
	if i == it.ix.n {
		return it.backwardFrom(i - 1)
	}
	if !it.load(i, false) {
		return false
	}
	if it.data.SeekLT(ikey) {
		return true
	}
	return it.backwardFrom(i - 1)
}

// forwardFrom goes to the first entry of block i or of those behind it.
func (it *Iter) forwardFrom(i int) bool {
	for ; !it.failed() && i < it.ix.n; i++ {
		if it.load(i, true) && it.data.First() {
			return true
		}
	}
	it.data.unposition()
	return false
}

// backwardFrom goes to the last entry of block i or of those before it.
func (it *Iter) backwardFrom(i int) bool {
	for ; !it.failed() && i >= 0; i-- {
		if it.load(i, false) && it.data.Last() {
			return true
		}
	}
	it.data.unposition()
	return false
}

// failed takes over an error of the block iterator, and reports whether there
// is an error.
func (it *Iter) failed() bool {
	if it.err == nil && it.data.err != nil {
		it.err = it.r.located(it.data.err, it.ix, it.at)
	}
	return it.err != nil
}

// load puts the block iterator on data block i, not positioned.
func (it *Iter) load(i int, forward bool) bool {
	if it.failed() {
		it.data.unposition()
		return false
	}
	if it.at == i {
		it.data.unposition()
		return true
	}
	b, err := it.fetch(i, forward)
	if err != nil {
		it.err = err
		it.data.unposition()
		return false
	}
	it.at = i
	it.data.init(it.r.cmp, b, dataPart)
	return true
}

// fetch returns data block i from the cache or from disk.
func (it *Iter) fetch(i int, forward bool) (Block, error) {
	own := it.opts.NoFillCache || it.opts.ReadAhead > 0 || it.r.cache == nil
	if it.r.cache != nil {
		peek := it.ix.slots[i].Get
		if own {
			peek = it.ix.slots[i].Peek // a use that says nothing about the next
		}
		if b := peek(); b != nil {
			it.stats.BlocksFromCache++
			return it.unpack(i, b)
		}
	}
	if own {
		return it.fetchOwn(i, forward)
	}
	b, n, err := it.r.loadData(it.ix, i, it.takeScratch())
	if err != nil {
		return Block{}, err
	}
	if n == 0 {
		it.stats.BlocksFromCache++
	} else {
		it.stats.BlocksFromDisk++
		it.stats.BytesRead += uint64(n)
	}
	return *b, nil
}

// unpack returns b, which the cache has for data block i, for reading.
func (it *Iter) unpack(i int, b *Block) (Block, error) {
	if b.kind == NoCompression {
		return *b, nil
	}
	b, err := it.r.cache.unpack(&it.ix.slots[i], b, it.takeScratch())
	if err != nil {
		return Block{}, it.r.located(err, it.ix, i)
	}
	return *b, nil
}

// takeScratch returns the iterator's memory for blocks. What it gave for the
// block that data is on may be about to be overwritten.
func (it *Iter) takeScratch() *scratch {
	it.at = -1
	if it.scratch == nil {
		it.scratch = scratches.Get().(*scratch)
	}
	return it.scratch
}

// fetchOwn returns data block i by way of the iterator's own buffers, which the
// block before lies in no longer needed: the iterator moves on.
func (it *Iter) fetchOwn(i int, forward bool) (Block, error) {
	sc := it.takeScratch()
	if i < it.span.first || i >= it.span.end {
		s := it.ix.span(i, forward, uint64(max(it.opts.ReadAhead, 0)))
		it.span = blockSpan{}
		sc.stored = sized(sc.stored, int(s.size))
		if err := it.r.readAt(sc.stored, s.offset, dataPart); err != nil {
			return Block{}, err
		}
		it.span = s
		it.stats.BytesRead += s.size
	}
	it.stats.BlocksFromDisk++
	h := it.ix.block(i)
	start := h.offset - it.span.offset
	data, kind, err := openBlock(sc.stored[start:start+h.size+blockTrailerLen], sc.decoded, dataPart)
	if err != nil {
		return Block{}, it.r.located(err, it.ix, i)
	}
	if kind != NoCompression {
		sc.decoded = data
	}
	b, err := newBlock(data, dataPart)
	return b, it.r.located(err, it.ix, i)
}

// Close implements base.Iterator.
func (it *Iter) Close() error {
	if !it.closed {
		it.closed = true
		it.failed()
		it.data.unposition()
		it.data.block, it.span, it.at = Block{}, blockSpan{}, -1
		if it.scratch != nil {
			it.scratch.rest()
			it.scratch = nil
		}
		it.r.Unref()
	}
	return it.err
}
