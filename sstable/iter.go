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
	// in order; 0: a block at a time, until a walk has shown that it goes on, see
	// Iter. Blocks behind the bounds are not read ahead, and those read ahead because
	// of it do not go to the cache.
	ReadAhead int
	// MostKept is how many bytes of blocks, as stored, a walk in order goes through, about, before it leaves
	// the cache as it is, for walks of which a cache holds little in the end; 0: no bound.
	MostKept int64
	// Lower and Upper are user keys: the first that is of interest and the first
	// behind those, nil for no bound. Blocks that hold none between the two are not
	// read on the way, and the iterator ends where only such are left; it may show
	// entries outside. They must not change while the iterator is in use.
	Lower, Upper []byte
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
// is closed. The zero Iter is closed, for Open.
//
// A new Iter is not at an entry, and neither is one whose last movement returned
// false: call First, Last or a seek then. Next and Prev may be called only while
// it is Valid. The store's own iterator, which db.DB.NewIterator returns, can be
// entered from either side.
//
// A walk that has gone from block to block for a while, without a seek, reads
// ahead; see fetch.
type Iter struct {
	r     *Reader
	ix    *index
	opts  IterOptions
	stats *IterStats
	own   IterStats // where nobody asked for them

	data   blockIter
	at     int    // the data block that data is on; -1: none
	sliced *Block // where data is on a slice of it, the block; else nil
	slice  int
	err    error

	aim     aim  // for SeekAimed
	touched byte // keeps the loads of touch

	scratch *scratch  // nil until a block has to be read or decompressed
	span    blockSpan // the blocks in scratch.stored, where several were read at once
	inOrder int       // blocks that the walk under way came to, each from a neighbour
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

// Open makes it an iterator over r, as NewIter does, and keeps the memory that it
// had. An iterator over another table is closed first, and what it knew of the
// walk under way holds for the one that follows. After an error it is closed.
func (it *Iter) Open(r *Reader, o IterOptions) error {
	it.release()
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

// release gives the table back.
func (it *Iter) release() {
	it.data.unposition()
	it.data.block, it.span, it.at, it.sliced, it.aim = Block{}, blockSpan{}, -1, nil, aim{}
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
			it.scratch.rest()
			it.scratch = nil
		}
	}
	return it.err
}

// Valid implements base.Iterator.
func (it *Iter) Valid() bool { return it.data.pos >= 0 }

// Key implements base.Iterator.
func (it *Iter) Key() []byte { return it.data.key }

// Value implements base.Iterator.
func (it *Iter) Value() []byte { return it.data.Value() }

// Err implements base.Iterator.
func (it *Iter) Err() error { return it.err }

// BlockOffset returns where in the file, in bytes, the data block of the present entry
// begins. The iterator must be Valid.
func (it *Iter) BlockOffset() uint64 { return it.ix.offsets[it.at] }

// First implements base.Iterator.
func (it *Iter) First() bool {
	if it.opts.Lower != nil {
		return it.forwardFrom(it.ix.find(it.r.cmp, it.opts.Lower, base.MakeTrailer(base.MaxSeq, base.KindSeek)))
	}
	return it.forwardFrom(0)
}

// Last implements base.Iterator.
func (it *Iter) Last() bool {
	return it.backwardFrom(it.ix.n - 1)
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

// StepApart is Next to an entry whose user key, as bytes, is another than the present
// one's, in the common case that this is known at once. Otherwise nothing moves.
func (it *Iter) StepApart() bool { return it.data.StepApart() }

// StepBack is Prev in the common case that the entry before is remembered. Otherwise nothing
// moves.
func (it *Iter) StepBack() bool { return it.data.StepBack() }

// ValueStays reports whether the present value stays where it is over a step back, which
// then stays in the same block, or slice of one.
func (it *Iter) ValueStays() bool { return it.data.pos > 0 }

// nextBlock goes on behind the block, or the slice of one, that was walked to its end.
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

// prevBlock goes on before the block, or the slice of one, that was walked to its
// beginning.
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

// endsAt reports whether no block behind block i holds anything below the upper
// bound: all that is there sorts behind separator i.
func (it *Iter) endsAt(i int) bool {
	return it.opts.Upper != nil && it.r.cmp.Compare(base.UserKey(it.ix.separator(i)), it.opts.Upper) >= 0
}

// beginsAt reports whether no block before block i holds anything at or behind
// the lower bound: all that is there is at or before separator i-1.
func (it *Iter) beginsAt(i int) bool {
	return it.opts.Lower != nil && i > 0 && it.r.cmp.Compare(base.UserKey(it.ix.separator(i-1)), it.opts.Lower) < 0
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

// seekFrom is seekGE where the index says that block i is the one to search.
func (it *Iter) seekFrom(i int, userKey []byte, trailer uint64) bool {
	if i == it.ix.n || !it.load(i, true) {
		it.data.unposition()
		return false
	}
	return it.blockSeekGE(userKey, trailer) || it.passedBlock(i)
}

// passedBlock goes on to the first entry behind block i, all of which is before
// the target of a seek.
func (it *Iter) passedBlock(i int) bool {
	return !it.failed() && !it.endsAt(i) && it.forwardFrom(i+1)
}

// SeekOn is SeekGE to a key behind the present one, which a target in the same
// block finds at less cost.
func (it *Iter) SeekOn(ikey []byte) bool {
	it.inOrder = 0
	if base.CompareInternal(it.r.cmp, it.ix.separator(it.at), ikey) < 0 {
		return it.seekGE(ikey)
	}
	return it.blockSeekOn(base.UserKey(ikey), base.Trailer(ikey)) || it.passedBlock(it.at)
}

// SeekLT implements base.Iterator.
func (it *Iter) SeekLT(ikey []byte) bool {
	it.inOrder = 0
	i := it.ix.find(it.r.cmp, base.UserKey(ikey), base.Trailer(ikey))
	if i == it.ix.n {
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

// forwardFrom goes to the first entry of block i or of those behind it.
func (it *Iter) forwardFrom(i int) bool {
	for ; !it.failed() && i < it.ix.n; i++ {
		if it.load(i, true) && it.blockFirst() {
			return true
		}
	}
	it.data.unposition()
	return false
}

// backwardFrom goes to the last entry of block i or of those before it.
func (it *Iter) backwardFrom(i int) bool {
	for ; !it.failed() && i >= 0; i-- {
		if it.load(i, false) && it.blockLast() {
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
