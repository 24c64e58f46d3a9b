package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/limit/cache"
)

// loadIndex returns the index. It reads and decodes it if that has not been done yet.
// bytesRead is the number of bytes that this call read from disk.
//
//go:noinline
func (r *Reader) loadIndex() (ix *index, bytesRead uint32, err error) {
	if r.memory != nil {
		defer r.memory.use.Settle() // without the lock: it may close tables
	}
	return r.loadIndexOnce()
}

func (r *Reader) loadIndexOnce() (ix *index, bytesRead uint32, err error) {
	r.loadMu.Lock()
	defer r.loadMu.Unlock()
	if ix = r.index.Load(); ix != nil {
		return ix, 0, nil
	}
	if stored := r.storedIndex.Load(); stored != nil {
		if ix, err = r.decodeIndex(*stored); err == nil {
			r.setIndex(ix)
		}
		r.storedIndex.Store(nil)
		r.charge(-int64(cap(*stored)))
		if err == nil {
			return ix, 0, nil
		}
	}
	if !r.Ref() {
		return nil, 0, ErrReaderClosed
	}
	defer r.Unref()
	stored, err := r.readStoredIndex()
	if err != nil {
		return nil, 0, err
	}
	if ix, err = r.decodeIndex(stored); err != nil {
		return nil, 0, err
	}
	r.setIndex(ix)
	return ix, uint32(len(stored)), nil
}

func (r *Reader) readStoredIndex() ([]byte, error) {
	stored := codec.Sized(nil, int(r.foot.Index.Size)+blockTrailerLen)
	return stored, r.readAt(stored, r.foot.Index.Offset, indexPart)
}

// needIndex returns the index, and loads it if it is not in memory.
func (r *Reader) needIndex() (*index, error) {
	if ix := r.index.Load(); ix != nil {
		return ix, nil
	}
	ix, _, err := r.loadIndex()
	return ix, err
}

// LoadIndex loads the index, which lookups otherwise do when they first need it. It returns how many bytes it read from
// disk: 0 if the index was in memory.
func (r *Reader) LoadIndex() (bytesRead uint64, err error) {
	_, n, err := r.loadIndex()
	return uint64(n), err
}

// BlockBytes returns the size in the file, including the trailer, of the data block that a Get searches for the key, or
// of the first one if it searches two. It returns 0 if there is none, or if the index is not in memory.
func (r *Reader) BlockBytes(lk *Lookup) uint64 {
	ix := r.index.Load()
	if ix == nil {
		return 0
	}
	i := ix.find(r.cmp, lk.userKey, lk.trailer)
	if i >= ix.Len() {
		return 0
	}
	return uint64(ix.Size(i)) + blockTrailerLen
}

// decodeIndex checks and decodes the index block as it is stored. It does not keep stored.
func (r *Reader) decodeIndex(stored []byte) (*index, error) {
	data, _, err := openBlock(stored, nil, indexPart)
	if err != nil {
		return nil, base.InFile(err, r.name, int64(r.foot.Index.Offset))
	}
	ix, err := decodeIndex(data, r.cmp, r.limit)
	if err == nil && ix.End() > r.metaStart {
		err = base.Corruptf(indexPart, -1, "its data blocks end at offset %d, beyond the first of the other blocks; "+
			"want them to end at offset %d or before", ix.End(), r.metaStart)
	}
	if err == nil && ix.Len() == 0 && r.marks.marked { // a merge would drop all entries of the table
		err = base.Corruptf(indexPart, -1, "it lists no data block; want at least one, since the table has a first and a last key")
	}
	if err != nil {
		return nil, base.InFile(err, r.name, int64(r.foot.Index.Offset))
	}
	ix.lone = r.marks.lone
	return ix, nil
}

// setIndex makes ix the index. The caller holds r.loadMu.
func (r *Reader) setIndex(ix *index) {
	if r.cache != nil {
		ix.slots = make([]cache.Slot[Block], ix.Len())
		if r.cmp.IsBytewise() {
			ix.pivots = make([]pivots, ix.Len())
		}
	}
	r.charge(int64(ix.memBytes()))
	r.index.Store(ix)
	if r.dropped.Load() {
		r.DropBlocks()
	}
}
