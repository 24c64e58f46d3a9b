package sstable

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
	if err := it.readSpan(i, forward, uint64(max(it.opts.ReadAhead, 0)), false); err != nil {
		return Block{}, err
	}
	it.count(true)
	_, _, err := it.openInSpan(i, sc)
	return sc.block, err
}

// fetchAhead is fetchOwn for the iterator of one who did not ask to read ahead.
// While the cache has room, the block is kept there. A long walk through a full
// cache leaves it as it is: of what it would put there nothing stays, unless it
// comes back soon, and each block costs a copy.
func (it *Iter) fetchAhead(i int, forward bool) (Block, error) {
	sc := it.takeScratch()
	most := firstReadAhead << min(it.inOrder/readAheadAfter-1, 8)
	if err := it.readSpan(i, forward, uint64(min(most, mostReadAhead)), true); err != nil {
		return Block{}, err
	}
	// Blocks are rarely more than twice as long decompressed.
	if !it.r.cache.cache.HasRoom(3 * int64(it.ix.sizes[i])) {
		it.count(true)
		_, _, err := it.openInSpan(i, sc)
		return sc.block, err
	}
	b, loaded, err := it.r.cache.load(&it.ix.slots[i], sc, func() ([]byte, Compression, error) { return it.openInSpan(i, sc) })
	if sc.stored == nil { // the cache took it
		it.span = blockSpan{}
	}
	if err != nil {
		return Block{}, err
	}
	it.count(loaded)
	return *b, nil
}

// readSpan makes it.span blocks around data block i, i among them, that one read
// of at most most bytes takes. With missing, they are only blocks that the cache
// lacks.
func (it *Iter) readSpan(i int, forward bool, most uint64, missing bool) error {
	if i >= it.span.first && i < it.span.end {
		return nil
	}
	s := it.ix.span(i, forward, most)
	if missing {
		it.cutAtCached(&s, i)
	}
	it.span = blockSpan{}
	it.scratch.stored = sized(it.scratch.stored, int(s.size))
	if err := it.r.readAt(it.scratch.stored, s.offset, dataPart); err != nil {
		return err
	}
	it.span = s
	it.stats.BytesRead += s.size
	return nil
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
