package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// An iteration that has come to readAheadAfter consecutive blocks reads blocks that are not in the cache several at a
// time: firstReadAhead bytes, then twice as many each time, up to maxReadAhead. With 4 KiB blocks it begins after about
// 250 entries of 116 bytes, so a seek and a few steps never pay for unused blocks. It saves system calls. The maximum
// is what fits in the processor's cache until it is used.
//
// All of it happens on the iterator's goroutine. A second one that worked 128 KiB ahead made a step
// take 41 ns instead of 48, but 78 ns of processor time instead of 47: fetching decoded lines from
// the other processor costs nearly what decoding them does.
const (
	readAheadAfter = 8
	firstReadAhead = 16 << 10 // bytes
	maxReadAhead   = 128 << 10
)

// An iteration through cached blocks waits for memory: entries say where the next one begins, and a backward one
// reads the restart intervals from last to first, each of them forward, which the processor predicts badly. So an
// iteration that has come to a few blocks in order loads the next cached block while it is in the present one. With all
// blocks cached and one run, a step forward takes 51 ns instead of 81. Large blocks are left out: they have large
// values, which may not be needed.
const (
	touchAfter = 2 // blocks; a seek and a few steps may cross one boundary
	maxTouched = 16 << 10
)

// load puts the block iterator on data block i, not positioned. If the block is in slices,
// the block iterator is not on any of them yet: see enter.
func (it *Iter) load(i int, forward bool) bool {
	if it.failed() {
		it.data.unposition()
		return false
	}
	if it.at == i {
		it.data.unposition()
		return true
	}
	it.sliced = nil
	if it.skips(i) {
		it.loadKey(i)
		return true
	}
	b, err := it.fetch(i, forward)
	if err == nil && it.sliced == nil && b.empty() && it.ix.lone.Has(i) {
		err = it.r.located(base.Corruptf(dataPart, -1, wrongAlone), it.ix, i)
	}
	if err != nil {
		it.err, it.at = err, i
		it.data.unposition()
		return false
	}
	it.at = i
	it.data.init(it.r.cmp, *b, dataPart)
	return true
}

// inSlices is what fetch returns for a block of which the iterator decodes single slices.
var inSlices Block

// fetch returns data block i from the cache or from disk. If it is cached in slices, fetch sets
// it.sliced, and returns an empty block.
func (it *Iter) fetch(i int, forward bool) (*Block, error) {
	own := it.opts.NoFillCache || it.opts.ReadAhead > 0 || it.r.cache == nil
	if it.r.cache != nil {
		peek := it.ix.slots[i].Get
		if own {
			peek = it.ix.slots[i].Peek // a use that predicts nothing about later ones
		}
		if b := peek(); b != nil {
			it.stats.BlocksFromCache++
			if b.kind == slicedKind && !own && !it.r.cache.cache.Hot(&it.ix.slots[i]) {
				it.takeScratch()
				it.sliced = b
				return &inSlices, nil
			}
			if it.inOrder >= touchAfter {
				it.touchNext(i, forward)
			}
			return it.unpack(i, b)
		}
	}
	switch {
	case own:
		return it.fetchOwn(i, forward)
	case it.inOrder >= readAheadAfter:
		return it.fetchAhead(i, forward)
	}
	it.span = blockSpan{} // this block reuses its memory
	sc := it.takeScratch()
	lent := sc.borrowStored()
	b, n, err := it.r.loadData(it.ix, i, sc, true)
	if sc.returnStored(lent); err != nil {
		return nil, err
	}
	it.count(n > 0)
	it.stats.BytesRead += uint64(n)
	return b, nil
}

// touchNext loads the cached block to which the iteration comes after data block i, and the cache's entry of the one
// after that, so that they come from memory while the iteration is in block i.
func (it *Iter) touchNext(i int, forward bool) {
	next, end := 1, it.ix.Len()
	if !forward {
		next, end = -1, -1
	}
	if i += next; i == end {
		return
	}
	if b := it.ix.slots[i].Peek(); b != nil && it.reads(b) {
		it.touched += hugepages.Touch(b.data)
	}
	if i += next; i != end {
		it.ix.slots[i].TouchValue()
	}
}

// reads reports whether an iteration through cached block b reads about all its cache lines. One
// that shows only keys leaves out the values, which are most of a block with few keys.
func (it *Iter) reads(b *Block) bool {
	return len(b.data) <= maxTouched && (b.numRestarts > 1 || !it.opts.KeysOnly)
}

func (it *Iter) count(fromDisk bool) {
	if fromDisk {
		it.stats.BlocksFromDisk++
	} else {
		it.stats.BlocksFromCache++
	}
}

// unpack returns b, the cached form of data block i, decompressed.
func (it *Iter) unpack(i int, b *Block) (*Block, error) {
	if b.kind == NoCompression {
		return b, nil
	}
	b, err := it.r.cache.unpack(&it.ix.slots[i], b, it.takeScratch(), it.r.cmp.IsBytewise())
	if err != nil {
		return nil, it.r.located(err, it.ix, i)
	}
	return b, nil
}

// takeScratch returns the iterator's memory for blocks. The block that data is on may be
// about to be overwritten, so the iterator leaves it.
func (it *Iter) takeScratch() *scratch {
	it.at = -1
	if it.scratch == nil {
		it.scratch = scratches.Get().(*scratch)
	}
	return it.scratch
}

// fetchOwn returns data block i, read into the iterator's own buffers. It may overwrite
// the previous block, which is no longer needed.
func (it *Iter) fetchOwn(i int, forward bool) (*Block, error) {
	sc := it.takeScratch()
	size := it.opts.ReadAhead
	if size <= 0 {
		size = it.readAhead()
	}
	if err := it.readSpan(i, forward, uint64(size), false); err != nil {
		return nil, err
	}
	it.count(true)
	_, _, err := it.openInSpan(i, sc)
	return &sc.block, err
}

// readAhead returns how many bytes to read together. 0, a block at a time, is for short iterations.
func (it *Iter) readAhead() int {
	if it.inOrder < readAheadAfter {
		return 0
	}
	return min(firstReadAhead<<min(it.inOrder/readAheadAfter-1, 8), maxReadAhead)
}

// fetchAhead is fetchOwn for read-ahead that the caller did not request. The block is put in the cache if that has room
// and the iteration is not beyond IterOptions.MaxCached. A long iteration adds nothing to a full cache: its blocks
// would soon be evicted, and each would cost a copy into fresh memory.
func (it *Iter) fetchAhead(i int, forward bool) (*Block, error) {
	sc := it.takeScratch()
	if err := it.readSpan(i, forward, uint64(it.readAhead()), true); err != nil {
		return nil, err
	}
	if !it.keeps(int64(it.ix.Size(i))) {
		it.count(true)
		_, _, err := it.openInSpan(i, sc)
		return &sc.block, err
	}
	b, loaded, err := it.r.cache.load(&it.ix.slots[i], sc, it.r.cmp.IsBytewise(),
		func() ([]byte, Compression, error) { return it.openInSpan(i, sc) })
	if sc.stored == nil { // the cache has it now
		it.span = blockSpan{}
	}
	if err != nil {
		return nil, err
	}
	it.count(loaded)
	return b, nil
}

// keeps reports whether the iteration puts a block of that stored size in the cache.
func (it *Iter) keeps(size int64) bool {
	if most := it.opts.MaxCached; most > 0 && int64(it.inOrder)*size > most {
		return false
	}
	return it.r.hasRoom(size)
}

// hasRoom reports whether a block of that stored size would fit the cache without an eviction.
func (r *Reader) hasRoom(size int64) bool {
	return r.cache != nil && r.cache.cache.HasRoom(3*size) // blocks are rarely more than twice as long decompressed
}

// readSpan reads data block i, and neighbours that an iteration within the bounds can come to, with one read of at most
// most bytes, and makes them it.span. If missing is true, they are only blocks that the cache lacks.
func (it *Iter) readSpan(i int, forward bool, most uint64, missing bool) error {
	if i >= it.span.first && i < it.span.end {
		return nil
	}
	it.span = blockSpan{}
	lo, hi := 0, it.ix.Len()
	if most > 0 {
		lo, hi = it.reach(forward)
	}
	s := it.ix.span(i, forward, most, lo, hi)
	if missing || it.opts.KeysOnly {
		it.cut(&s, i, missing)
	}
	err := it.readInto(s)
	if err != nil && s.end-s.first > 1 && it.opts.ReadAhead <= 0 {
		// The others were not requested, and the fault may be in them.
		err = it.readInto(it.ix.span(i, forward, 0, lo, hi))
	}
	return err
}

// readInto reads s and makes it it.span.
func (it *Iter) readInto(s blockSpan) error {
	it.scratch.stored = codec.Sized(it.scratch.stored, int(s.size))
	if err := it.r.readAt(it.scratch.stored, s.offset, dataPart); err != nil {
		return err
	}
	it.span = s
	it.stats.BytesRead += s.size
	return nil
}

// reach returns the blocks [lo, hi) to which an iteration within the bounds can come.
func (it *Iter) reach(forward bool) (lo, hi int) {
	seek := base.MakeTrailer(base.MaxSeq, base.KindSeek)
	lo, hi = 0, it.ix.Len()
	if upper := it.opts.Upper; forward && upper != nil {
		hi = min(hi, it.ix.find(it.r.cmp, upper, seek)+1)
	}
	if lower := it.opts.Lower; !forward && lower != nil {
		lo = it.ix.find(it.r.cmp, lower, seek)
	}
	return lo, hi
}

// cut shrinks s to data block i and the blocks around it up to the next one on either side that
// will not be read: a lone one for an iterator that shows only keys or, if missing is true, a cached one.
func (it *Iter) cut(s *blockSpan, i int, missing bool) {
	wanted := func(j int) bool {
		return !(missing && it.ix.slots[j].Peek() != nil) && !it.skips(j)
	}
	first, end := i, i+1
	for first > s.first && wanted(first-1) {
		first--
	}
	for end < s.end && wanted(end) {
		end++
	}
	if first > s.first || end < s.end {
		offset := it.ix.Offset(first)
		*s = blockSpan{first: first, end: end, offset: offset, size: it.ix.Handle(end-1).End() - offset}
	}
}

// openInSpan checks and decompresses data block i, which is in it.span, and makes it
// sc.block. It returns the block as it is stored.
func (it *Iter) openInSpan(i int, sc *scratch) (raw []byte, kind Compression, err error) {
	h := it.ix.Handle(i)
	start := h.Offset - it.span.offset
	sc.block = Block{}
	raw, kind, err = sc.open(sc.stored[start : start+h.Size+blockTrailerLen])
	return raw, kind, it.r.located(err, it.ix, i)
}
