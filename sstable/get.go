package sstable

// Verdict is the result of probing a table's filter with a key.
type Verdict uint8

// The verdicts of a filter.
const (
	// FilterNone: no filter was consulted.
	FilterNone Verdict = iota
	// FilterNegative: the key is not in the table; no data block was read.
	FilterNegative
	// FilterPassed: the key may be in the table.
	FilterPassed
)

// Result is the answer of one table to a Lookup, with its cost.
type Result struct {
	// Value is valid until the lookup is used again or released: it points into a
	// block or into the lookup's memory, and must not be modified. It is empty for a tombstone.
	Value []byte
	// Trailer has the found version's sequence number and kind, encoded as in an internal key.
	Trailer uint64
	// BytesRead is the number of bytes read from disk, including index and trailers.
	BytesRead uint32
	// Found reports whether the table has a version of the key, which may be a tombstone.
	Found bool
	// Filter is the filter's verdict.
	Filter Verdict
	// IndexRead reports whether this Get read the index from disk. Usually the index was
	// read when the table was opened.
	IndexRead bool
	// BlockFromCache and BlockFromDisk say where the data block came from. Neither is set if none was needed. A block
	// that another goroutine was reading counts as from the cache. Both may be set if a Get needs two blocks, which
	// happens only if the newest version that is old enough begins the next block.
	BlockFromCache, BlockFromDisk bool
}

// Get finds the newest version of the lookup's key that is old enough. It consults the whole-table filter first, then
// the index, then the filters of block ranges, then one data block. A Get that needs no disk takes no lock and no
// reference, writes nothing shared except a bit in the cache, and allocates nothing unless a block has become hot: see
// BlockCache.
func (r *Reader) Get(lk *Lookup) (Result, error) {
	if r.Denies(lk) {
		return Result{Filter: FilterNegative}, nil
	}
	return r.GetAfterFilter(lk)
}

// Denies reports whether the filter of the whole table rules the key out. Get would then find nothing and return
// FilterNegative. Without such a filter Denies returns false.
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

// GetAfterFilter is Get for callers that know that Denies returns false for the key.
func (r *Reader) GetAfterFilter(lk *Lookup) (Result, error) {
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
	for i := ix.find(r.cmp, lk.userKey, lk.trailer); i < ix.Len(); i++ {
		if f == nil || res.passes(f, lk, ix.Offset(i)) {
			done, err := r.getInBlock(ix, i, lk, &res)
			if done || err != nil {
				return res, err
			}
		}
		if !ix.Continues(r.cmp, i, lk.userKey) {
			break
		}
	}
	return res, nil
}

// passes probes the filter of the block at offset and records its verdict.
func (res *Result) passes(f *filterBlock, lk *Lookup, offset uint64) bool {
	may, consulted := f.mayContainAt(lk, offset)
	switch {
	case may && consulted:
		res.Filter = FilterPassed
	case consulted && res.Filter == FilterNone:
		res.Filter = FilterNegative
	}
	return may
}

// getInBlock searches data block i. done is false if all of the block is before the target.
func (r *Reader) getInBlock(ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	if lk.KeyOnly && ix.lone.Has(i) && r.getAlone(ix, i, lk, res) {
		return true, nil
	}
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

// dataBlock returns data block i, possibly in the lookup's memory. b is its cached form, nil if it is not in the cache.
func (r *Reader) dataBlock(b *Block, ix *index, i int, lk *Lookup, res *Result) (_ *Block, err error) {
	switch {
	case b == nil:
		var n uint32
		fill := !lk.NoFillCache && (!lk.Scanning || r.hasRoom(int64(ix.Size(i))))
		if b, n, err = r.loadData(ix, i, lk.takeScratch(), fill); err != nil {
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

// searchWhole is getInBlock for a whole block in memory.
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

// searchBlock is getInBlock for a block in memory, or for a slice of one, which has no pivots.
func (r *Reader) searchBlock(b *Block, pv *pivots, ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	f, err := b.get(pv, r.cmp, lk.userKey, lk.trailer)
	if err != nil {
		return false, r.located(err, ix, i)
	}
	if f.ok {
		res.Value, res.Trailer, res.Found = f.value, f.trailer, true
	}
	return !f.atEnd, nil
}
