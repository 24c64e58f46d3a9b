package sstable

// Verdict is what a table's filter said about a key.
type Verdict uint8

// The verdicts of a filter.
const (
	// FilterNone: no filter was asked.
	FilterNone Verdict = iota
	// FilterNegative: the key is not in the table; no data block was read.
	FilterNegative
	// FilterPassed: the key may be in the table.
	FilterPassed
)

// Result is the answer of one table to a Lookup, and what it took.
type Result struct {
	// Value is valid until the lookup is used again or released: it points into a
	// block, or into memory of the lookup's. It is empty for a tombstone.
	Value []byte
	// Trailer is the found version's sequence number and kind; see
	// ParseKey.
	Trailer uint64
	// BytesRead is what was read from disk, index and trailers included.
	BytesRead uint32
	// Found is whether the table holds a version, a tombstone perhaps.
	Found bool
	// Filter is what the filter said.
	Filter Verdict
	// IndexRead is whether this Get read the index from disk; most indexes came with
	// the opening of their table.
	IndexRead bool
	// BlockFromCache and BlockFromDisk tell where the data block came from;
	// neither is set where none was needed. A block that another goroutine was
	// just reading counts as from the cache. In the one case in which a Get needs
	// two blocks (the newest version that is old enough begins the next block),
	// both may be set.
	BlockFromCache, BlockFromDisk bool
}

// Get finds the newest version of the lookup's key that is old enough. The
// whole-table filter comes first, then the index, then the filters of block
// ranges, then one data block. A Get that needs no disk takes no lock and no
// reference, writes nothing that is shared but a bit of the cache, and
// allocates nothing, unless a block has become hot: see BlockCache.
func (r *Reader) Get(lk *Lookup) (Result, error) {
	if r.Denies(lk) {
		return Result{Filter: FilterNegative}, nil
	}
	return r.GetUndenied(lk)
}

// Denies reports whether the filter of the whole table rules the key out: Get would
// find nothing, and say FilterNegative. Where there is no such filter it denies
// nothing.
func (r *Reader) Denies(lk *Lookup) bool {
	if r.hasLines {
		if lk.hashed>>r.lineSlot&1 == 0 {
			lk.Hash(int(r.lineSlot), r.filter.hashed)
		}
		return !r.lines.HashMayMatch(lk.hashes[r.lineSlot])
	}
	f := r.filter
	return f != nil && f.whole && !f.mayContain(lk)
}

// GetUndenied is Get for a key of which the caller knows that Denies is false.
func (r *Reader) GetUndenied(lk *Lookup) (Result, error) {
	var res Result
	f := r.filter
	if f != nil && f.whole {
		res.Filter = FilterPassed
		f = nil
	}
	ix := r.index.Load()
	if ix == nil {
		var err error
		if ix, res.BytesRead, err = r.loadIndex(); err != nil {
			return res, err
		}
		res.IndexRead = res.BytesRead > 0
	}
	for i := ix.find(r.cmp, lk.userKey, lk.trailer); i < ix.n; i++ {
		if f == nil || res.passes(f, lk, ix.offsets[i]) {
			done, err := r.getInBlock(ix, i, lk, &res)
			if done || err != nil {
				return res, err
			}
		}
		if !ix.continues(r.cmp, i, lk.userKey) {
			break
		}
	}
	return res, nil
}

// passes asks the filter of the block at offset and keeps its verdict.
func (res *Result) passes(f *filterBlock, lk *Lookup, offset uint64) bool {
	may, asked := f.mayContainAt(lk, offset)
	switch {
	case may && asked:
		res.Filter = FilterPassed
	case asked && res.Filter == FilterNone:
		res.Filter = FilterNegative
	}
	return may
}

// getInBlock looks in data block i. done is false where all of the block is
// before the target.
func (r *Reader) getInBlock(ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	var b *Block
	if r.cache != nil {
		b = ix.slots[i].Get()
	}
	if b != nil && b.kind == slicedKind && !r.cache.cache.Hot(&ix.slots[i]) {
		res.BlockFromCache = true
		return r.getInSlices(b, ix, i, lk, res)
	}
	if b, err = r.dataBlock(b, ix, i, lk, res); err != nil {
		return false, err
	}
	return r.searchWhole(b, ix, i, lk, res)
}

// dataBlock returns data block i, possibly in memory of the lookup's. b is what the
// cache holds of it, nil for nothing.
func (r *Reader) dataBlock(b *Block, ix *index, i int, lk *Lookup, res *Result) (_ *Block, err error) {
	switch {
	case b == nil:
		var n uint32
		if b, n, err = r.loadData(ix, i, lk.takeScratch()); err != nil {
			return nil, err
		}
		res.BytesRead += n
		res.BlockFromDisk = res.BlockFromDisk || n > 0
		res.BlockFromCache = res.BlockFromCache || n == 0
	case b.kind != NoCompression:
		if b, err = r.cache.unpack(&ix.slots[i], b, lk.takeScratch(), r.cmp.IsBytewise()); err != nil {
			return nil, r.located(err, ix, i)
		}
		res.BlockFromCache = true
	default:
		res.BlockFromCache = true
	}
	return b, nil
}

// searchWhole is getInBlock for a block that is there, whole.
func (r *Reader) searchWhole(b *Block, ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	if ix.pivots == nil {
		return r.searchBlock(b, nil, ix, i, lk, res)
	}
	pv := &ix.pivots[i]
	if pv.shape.Load() == 0 {
		pv.make(b)
	}
	return r.searchBlock(b, pv, ix, i, lk, res)
}

// searchBlock is getInBlock for a block that is there, or for a part of one, which
// has no pivots.
func (r *Reader) searchBlock(b *Block, pv *pivots, ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	f, err := b.getBehind(pv, r.cmp, lk.userKey, lk.trailer)
	if err != nil {
		return false, r.located(err, ix, i)
	}
	if f.ok {
		res.Value, res.Trailer, res.Found = f.value, f.trailer, true
	}
	return !f.atEnd, nil
}
