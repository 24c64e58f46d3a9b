package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
)

// IterOptions say how to iterate over a table.
type IterOptions struct {
	// NoFillCache makes the iterator use cached blocks but add none: it reads the
	// others into its own buffer. It is meant for compactions.
	NoFillCache bool
	// ReadAhead is the largest number of bytes per read from disk, for iteration in order. With 0 the iterator reads
	// one block at a time, until it has crossed several blocks in order, see Iter. It does not read blocks beyond the
	// bounds ahead. With ReadAhead above 0 it adds no blocks to the cache.
	ReadAhead int
	// KeysOnly says that the values will not be read. Value may then be empty, and a block that
	// has one large entry is not read: the index has its key. A cached block that has few keys
	// is not loaded into the processor's cache as a whole.
	KeysOnly bool
	// MaxCached is approximately how many bytes of blocks, as stored, an iteration in order
	// covers before it stops adding blocks to the cache. 0 means no limit.
	MaxCached int64
	// Lower and Upper are user keys that bound the keys of interest: Lower inclusive, Upper exclusive, nil for no
	// bound. Blocks without keys between them are skipped, and the iterator ends when only such blocks remain. It may
	// return entries outside of the bounds. The slices must not change while the iterator is in use.
	Lower, Upper []byte
	// Stats, if not nil, counts the blocks used. It belongs to the iterator's
	// goroutine; several iterators of one goroutine may share it.
	Stats *IterStats
}

// IterStats counts the blocks and bytes that iterators use.
type IterStats struct {
	BlocksFromCache uint64
	BlocksFromDisk  uint64
	BytesRead       uint64 // bytes from disk, including index and trailers
}

// Iter iterates over a table. It is a base.Iterator. It keeps the table's file open
// until it is closed. The zero Iter is closed and can be opened with Open.
//
// A new Iter is not at an entry, and neither is one whose last movement returned false: then call First, Last or a
// seek. Next and Prev may be called only while it is Valid. (The store's own iterator, which db.DB.NewIterator returns,
// allows Next and Prev in these states.)
//
// An iteration that has crossed several blocks in order, without a seek, reads ahead; see readAheadAfter.
type Iter struct {
	r     *Reader
	ix    *index
	opts  IterOptions
	stats *IterStats
	own   IterStats // used if IterOptions.Stats is nil

	data   blockIter
	at     int    // the data block that data is on, or that of err; -1 if none
	sliced *Block // the block, if data is on a slice of it; else nil
	slice  int
	err    error

	lane    lane // since EnterLane
	aim     aim  // for SeekAimed
	touched byte // keeps the loads of touch

	scratch *scratch  // nil until a block has to be read or decompressed
	span    blockSpan // the blocks in scratch.stored, if several were read together
	inOrder int       // consecutive blocks that the iteration came to since the last seek
}

var _ base.Iterator = (*Iter)(nil)

// NewIter returns an iterator that is not positioned. It reads the index if it
// is not in memory. The iterator must be closed.
func (r *Reader) NewIter(o IterOptions) (*Iter, error) {
	it := new(Iter)
	if err := it.Open(r, o); err != nil {
		return nil, err
	}
	return it, nil
}

// Open makes it an iterator over r, like one of NewIter, and reuses its memory. If it is open, it is closed first, and
// its read-ahead continues with the new table, as if the iteration continued there. After an error it is closed.
func (it *Iter) Open(r *Reader, o IterOptions) error {
	if it.r != nil {
		it.release()
	} else { // closed, or the zero Iter
		it.data.unposition()
		it.at = -1
	}
	it.err, it.data.err = nil, nil
	if !r.Ref() {
		return ErrReaderClosed
	}
	it.opts, it.stats = o, o.Stats
	if it.stats == nil {
		it.stats = &it.own
	}
	ix := r.index.Load()
	if ix == nil {
		read, n, err := r.loadIndex()
		if err != nil {
			r.Unref()
			return err
		}
		ix = read
		it.stats.BytesRead += uint64(n)
	}
	it.r, it.ix = r, ix
	return nil
}

// release drops the reference to the table.
func (it *Iter) release() {
	it.data.unposition()
	it.data.block, it.span, it.at, it.sliced, it.aim, it.lane = Block{}, blockSpan{}, -1, nil, aim{}, lane{}
	if it.r != nil {
		it.r.Unref()
		it.r, it.ix = nil, nil
	}
}

// Close implements base.Iterator. A closed iterator can be opened again.
func (it *Iter) Close() error {
	if it.r != nil {
		it.failed()
		it.release()
		it.data.trim()
		it.inOrder, it.opts, it.stats = 0, IterOptions{}, nil
		if it.scratch != nil {
			it.scratch.release()
			it.scratch = nil
		}
	}
	return it.err
}

// Valid implements base.Iterator.
func (it *Iter) Valid() bool { return it.data.pos >= 0 }

// Key implements base.Iterator. The slice must not be modified.
func (it *Iter) Key() []byte { return it.data.key }

// Value implements base.Iterator. The slice is memory of a block that others may read: it must not be modified.
func (it *Iter) Value() []byte { return it.data.Value() }

// Err implements base.Iterator.
func (it *Iter) Err() error { return it.err }

// BlockOffset returns the offset in the file, in bytes, of the current entry's data block. The iterator must be Valid.
func (it *Iter) BlockOffset() uint64 { return it.ix.Offset(it.at) }

// First implements base.Iterator.
func (it *Iter) First() bool {
	if it.opts.Lower != nil {
		return it.forwardFrom(it.ix.find(it.r.cmp, it.opts.Lower, base.MakeTrailer(base.MaxSeq, base.KindSeek)))
	}
	return it.forwardFrom(0)
}

// Last implements base.Iterator.
func (it *Iter) Last() bool {
	return it.backwardFrom(it.ix.Len() - 1)
}

// Next implements base.Iterator.
func (it *Iter) Next() bool {
	if it.data.Next() {
		return true
	}
	return it.nextBlock()
}

// Prev implements base.Iterator.
func (it *Iter) Prev() bool {
	if it.data.Prev() {
		return true
	}
	return it.prevBlock()
}

// NextDistinct is Next if the next entry has different user key bytes and this is quickly
// known, as it commonly is. Otherwise it returns false and the iterator does not move.
func (it *Iter) NextDistinct() bool { return it.data.NextDistinct() }

// StepBack is Prev in the common case that the previous entry is remembered. Otherwise it
// returns false and the iterator does not move.
func (it *Iter) StepBack() bool { return it.data.StepBack() }

// ValueStays reports whether the current value stays valid after a step back, because the
// previous entry is in the same block, or slice of a block.
func (it *Iter) ValueStays() bool { return it.data.pos > 0 }

// nextBlock continues after the end of a block, or of a slice of one.
func (it *Iter) nextBlock() bool {
	if it.nextSlice() {
		return true
	}
	if it.failed() || it.endsAt(it.at) {
		return false
	}
	it.inOrder++
	return it.forwardFrom(it.at + 1)
}

// prevBlock continues before the beginning of a block, or of a slice of one.
func (it *Iter) prevBlock() bool {
	if it.prevSlice() {
		return true
	}
	if it.failed() || it.beginsAt(it.at) {
		return false
	}
	it.inOrder++
	return it.backwardFrom(it.at - 1)
}

// endsAt reports whether no block after block i has keys below the upper bound: all keys there sort after separator i.
func (it *Iter) endsAt(i int) bool {
	return it.opts.Upper != nil && it.ix.CompareUser(it.r.cmp, i, it.opts.Upper) >= 0
}

// beginsAt reports whether no block before block i has keys at or above the lower
// bound: all keys there are at or before separator i-1.
func (it *Iter) beginsAt(i int) bool {
	return it.opts.Lower != nil && i > 0 &&
		it.ix.CompareUser(it.r.cmp, i-1, it.opts.Lower) < 0
}

// SkipDamage moves to the first entry after the data block whose damage ended the iteration: Err was not nil.
func (it *Iter) SkipDamage() bool {
	bad := it.at
	it.err, it.data.err, it.at = nil, nil, -1
	return it.forwardFrom(bad + 1)
}

// SeekGE implements base.Iterator.
func (it *Iter) SeekGE(ikey []byte) bool {
	it.inOrder = 0
	return it.seekGE(ikey)
}

func (it *Iter) seekGE(ikey []byte) bool {
	userKey, trailer := base.UserKey(ikey), base.Trailer(ikey)
	return it.seekFrom(it.ix.find(it.r.cmp, userKey, trailer), userKey, trailer)
}

// seekFrom is seekGE if index.find returned block i.
func (it *Iter) seekFrom(i int, userKey []byte, trailer uint64) bool {
	if i == it.ix.Len() || !it.load(i, true) {
		it.data.unposition()
		return false
	}
	return it.blockSeekGE(userKey, trailer) || it.seekPastBlock(i)
}

// seekPastBlock moves to the first entry after block i, all of whose entries are before the target of a seek.
func (it *Iter) seekPastBlock(i int) bool {
	return !it.failed() && !it.endsAt(i) && it.forwardFrom(i+1)
}

// SeekForward is SeekGE to a key after the current one. It costs less if the target is in the same block.
func (it *Iter) SeekForward(ikey []byte) bool {
	it.inOrder = 0
	if it.ix.Compare(it.r.cmp, it.at, base.UserKey(ikey), base.Trailer(ikey)) < 0 {
		return it.seekGE(ikey)
	}
	return it.blockSeekForward(base.UserKey(ikey), base.Trailer(ikey)) || it.seekPastBlock(it.at)
}

// SeekLT implements base.Iterator.
func (it *Iter) SeekLT(ikey []byte) bool {
	it.inOrder = 0
	i := it.ix.find(it.r.cmp, base.UserKey(ikey), base.Trailer(ikey))
	if i == it.ix.Len() {
		return it.backwardFrom(i - 1)
	}
	if !it.load(i, false) {
		return false
	}
	if it.blockSeekLT(ikey) {
		return true
	}
	return !it.failed() && !it.beginsAt(i) && it.backwardFrom(i-1)
}

// forwardFrom moves to the first entry of block i or of those after it.
func (it *Iter) forwardFrom(i int) bool {
	for ; !it.failed() && i < it.ix.Len(); i++ {
		if it.load(i, true) && it.blockFirst() {
			return true
		}
	}
	it.data.unposition()
	return false
}

// backwardFrom moves to the last entry of block i or of those before it.
func (it *Iter) backwardFrom(i int) bool {
	for ; !it.failed() && i >= 0; i-- {
		if it.load(i, false) && it.blockLast() {
			return true
		}
	}
	it.data.unposition()
	return false
}

// failed reports whether there is an error. It adopts an error of the block iterator.
func (it *Iter) failed() bool {
	if it.err == nil && it.data.err != nil {
		it.err = it.r.located(it.data.err, it.ix, it.at)
	}
	return it.err != nil
}
