package sstable

import "github.com/sievedb/sievedb/internal/base"

// A walk that has come to readAheadAfter blocks one behind the other reads what is
// not in the cache several blocks at a time: firstReadAhead bytes, then twice as
// many each time, up to mostReadAhead. Of 4 KiB blocks that begins behind some 250
// entries of 116 bytes, so a seek and a few steps never pay for what they do not
// use. It saves system calls; the most is what still fits the processor's own
// cache until it is used.
const (
	readAheadAfter = 8
	firstReadAhead = 16 << 10 // bytes
	mostReadAhead  = 128 << 10
)

// A walk backward reads each restart interval forward, but one before the other: the
// processor foresees that badly, and so a cached block that it is going to read whole is
// brought near at once. Going forward nothing is gained by it. Large blocks hold large
// values, which need not be of interest.
const (
	touchAfter  = 2 // blocks; a seek and a few steps may cross one border
	mostTouched = 16 << 10
)

// load puts the block iterator on data block i, not positioned. Where the block is in
// slices, it is on none of them yet: see enter.
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
			if b.kind == slicedKind && !own && !it.r.cache.cache.Hot(&it.ix.slots[i]) {
				it.takeScratch()
				it.sliced = b
				return Block{}, nil
			}
			if !forward && it.inOrder >= touchAfter && len(b.data) <= mostTouched {
				it.touched += touch(b.data)
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
	it.span = blockSpan{} // its memory is used for this block
	b, n, err := it.r.loadData(it.ix, i, it.takeScratch())
	if err != nil {
		return Block{}, err
	}
	it.count(n > 0)
	it.stats.BytesRead += uint64(n)
	return *b, nil
}

func (it *Iter) count(fromDisk bool) {
	if fromDisk {
		it.stats.BlocksFromDisk++
	} else {
		it.stats.BlocksFromCache++
	}
}

// unpack returns b, which the cache has for data block i, for reading.
func (it *Iter) unpack(i int, b *Block) (Block, error) {
	if b.kind == NoCompression {
		return *b, nil
	}
	b, err := it.r.cache.unpack(&it.ix.slots[i], b, it.takeScratch(), it.r.cmp.IsBytewise())
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
	most := it.opts.ReadAhead
	if most <= 0 {
		most = it.readAhead()
	}
	if err := it.readSpan(i, forward, uint64(most), false); err != nil {
		return Block{}, err
	}
	it.count(true)
	_, _, err := it.openInSpan(i, sc)
	return sc.block, err
}

// readAhead is how many bytes the walk under way reads at once: 0, a block at a time, while it
// is short.
func (it *Iter) readAhead() int {
	if it.inOrder < readAheadAfter {
		return 0
	}
	return min(firstReadAhead<<min(it.inOrder/readAheadAfter-1, 8), mostReadAhead)
}

// fetchAhead is fetchOwn for the iterator of one who did not ask to read ahead.
// While the cache has room, the block is kept there, if the walk is not beyond IterOptions.MostKept. A
// long walk through a full cache leaves it as it is: of what it would put there nothing stays,
// unless it comes back soon, and each block costs a copy in memory that nothing was in.
func (it *Iter) fetchAhead(i int, forward bool) (Block, error) {
	sc := it.takeScratch()
	if err := it.readSpan(i, forward, uint64(it.readAhead()), true); err != nil {
		return Block{}, err
	}
	if !it.keeps(int64(it.ix.sizes[i])) {
		it.count(true)
		_, _, err := it.openInSpan(i, sc)
		return sc.block, err
	}
	b, loaded, err := it.r.cache.load(&it.ix.slots[i], sc, it.r.cmp.IsBytewise(), func() ([]byte, Compression, error) { return it.openInSpan(i, sc) })
	if sc.stored == nil { // the cache took it
		it.span = blockSpan{}
	}
	if err != nil {
		return Block{}, err
	}
	it.count(loaded)
	return *b, nil
}

// keeps reports whether the walk under way puts a block of that size, as stored, in the cache.
func (it *Iter) keeps(size int64) bool {
	if most := it.opts.MostKept; most > 0 && int64(it.inOrder)*size > most {
		return false
	}
	return it.r.cache.cache.HasRoom(3 * size) // blocks are rarely more than twice as long decompressed
}

// readSpan makes it.span blocks around data block i, i among them, that one read
// of at most most bytes takes, and to which a walk within the bounds can come. With missing,
// they are only blocks that the cache lacks.
func (it *Iter) readSpan(i int, forward bool, most uint64, missing bool) error {
	if i >= it.span.first && i < it.span.end {
		return nil
	}
	it.span = blockSpan{}
	lo, hi := 0, it.ix.n
	if most > 0 {
		lo, hi = it.reach(forward)
	}
	s := it.ix.span(i, forward, most, lo, hi)
	if missing {
		it.cutAtCached(&s, i)
	}
	err := it.readInto(s)
	if err != nil && s.end-s.first > 1 && it.opts.ReadAhead <= 0 {
		// Nobody asked for the others, and the fault may be theirs.
		err = it.readInto(it.ix.span(i, forward, 0, lo, hi))
	}
	return err
}

// readInto makes s it.span.
func (it *Iter) readInto(s blockSpan) error {
	it.scratch.stored = sized(it.scratch.stored, int(s.size))
	if err := it.r.readAt(it.scratch.stored, s.offset, dataPart); err != nil {
		return err
	}
	it.span = s
	it.stats.BytesRead += s.size
	return nil
}

// reach returns the blocks [lo, hi) to which a walk within the bounds can come.
func (it *Iter) reach(forward bool) (lo, hi int) {
	seek := base.MakeTrailer(base.MaxSeq, base.KindSeek)
	lo, hi = 0, it.ix.n
	if upper := it.opts.Upper; forward && upper != nil {
		hi = min(hi, it.ix.find(it.r.cmp, upper, seek)+1)
	}
	if lower := it.opts.Lower; !forward && lower != nil {
		lo = it.ix.find(it.r.cmp, lower, seek)
	}
	return lo, hi
}

// cutAtCached ends s on both sides of data block i before the next block that the
// cache has.
func (it *Iter) cutAtCached(s *blockSpan, i int) {
	first, end := i, i+1
	for first > s.first && it.ix.slots[first-1].Peek() == nil {
		first--
	}
	for end < s.end && it.ix.slots[end].Peek() == nil {
		end++
	}
	if first > s.first || end < s.end {
		offset := it.ix.offsets[first]
		*s = blockSpan{first: first, end: end, offset: offset, size: it.ix.block(end-1).end() - offset}
	}
}

// openInSpan checks and decompresses data block i, which it.span holds, and makes
// it sc.block. It returns the block as it is stored.
func (it *Iter) openInSpan(i int, sc *scratch) (raw []byte, kind Compression, err error) {
	h := it.ix.block(i)
	start := h.offset - it.span.offset
	stored := sc.stored[start : start+h.size+blockTrailerLen]
	sc.block = Block{}
	data, kind, err := openBlock(stored, sc.decoded, dataPart)
	if err == nil {
		if kind != NoCompression {
			sc.decoded = data
		}
		sc.block, err = newBlock(data, dataPart)
	}
	return stored[:h.size], kind, it.r.located(err, it.ix, i)
}
