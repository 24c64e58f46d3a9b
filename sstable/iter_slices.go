package sstable

import "github.com/sievedb/sievedb/internal/base"

// If the cache holds a block in slices, an iterator decodes only those that it comes to: a seek needs one, and a few
// steps after it seldom need another. it.data then iterates over slice it.slice of it.sliced, which is decoded to a
// separate block. The movements here are those of blockIter over data block it.at, in slices or not.

// enter puts the block iterator on slice s, not positioned.
func (it *Iter) enter(s int) bool {
	sc := it.scratch
	if err := sc.decodePart(it.sliced, s); err != nil {
		it.err = it.r.located(err, it.ix, it.at)
		it.data.unposition()
		return false
	}
	it.slice = s
	it.data.init(it.r.cmp, sc.block, dataPart)
	return true
}

// blockFirst moves to the first entry of the block.
func (it *Iter) blockFirst() bool {
	if it.sliced == nil {
		return it.data.First()
	}
	return it.enter(0) && (it.data.First() || it.nextSlice())
}

// blockLast moves to the last entry of the block.
func (it *Iter) blockLast() bool {
	if it.sliced == nil {
		return it.dataLast()
	}
	return it.enter(it.sliced.slices()-1) && (it.dataLast() || it.prevSlice())
}

// dataLast moves to the last entry of the block, or of the slice of it, that the block iterator is on. An iteration
// that has come to a few blocks in order probably walks through all of it.
func (it *Iter) dataLast() bool {
	return it.inOrder >= touchAfter && it.data.lastOfWhole() || it.data.Last()
}

func (it *Iter) blockSeekGE(userKey []byte, trailer uint64) bool {
	if it.sliced == nil {
		if s, ok := it.startOf(userKey); ok {
			return it.data.seekGEFrom(s, userKey, trailer)
		}
		return it.data.seekGE(userKey, trailer)
	}
	return it.seekSlice(userKey, trailer, -1) && (it.data.seekGE(userKey, trailer) || it.nextSlice())
}

// startOf returns where the search for a user key begins, if the block's pivots determine that.
func (it *Iter) startOf(userKey []byte) (s start, ok bool) {
	// The pivots of a lone block decide nothing, and its entry may not be in memory.
	if it.ix.pivots == nil || it.data.block.empty() || it.ix.lone.Has(it.at) {
		return s, false
	}
	pv, b := &it.ix.pivots[it.at], &it.data.block
	if pv.shape.Load() == 0 {
		pv.make(b)
	}
	s, ok = pv.find(b, userKey)
	return s, ok && s.holds(b, userKey)
}

func (it *Iter) blockSeekLT(ikey []byte) bool {
	if it.sliced == nil {
		return it.data.SeekLT(ikey)
	}
	return it.seekSlice(base.UserKey(ikey), base.Trailer(ikey), -1) && (it.data.SeekLT(ikey) || it.prevSlice())
}

// blockSeekForward moves to a target after the current entry. It may be several slices further on.
func (it *Iter) blockSeekForward(userKey []byte, trailer uint64) bool {
	if it.sliced == nil {
		return it.data.seekForward(userKey, trailer)
	}
	return it.seekSlice(userKey, trailer, it.slice) && (it.data.seekGE(userKey, trailer) || it.nextSlice())
}

// seekSlice enters the last slice that begins before (userKey, trailer), or slice 0. walked is
// the one that it.data is on, or -1.
func (it *Iter) seekSlice(userKey []byte, trailer uint64, walked int) bool {
	first, last, known := it.sliced.findSlice(userKey)
	if last != walked && !it.enter(last) {
		return false
	}
	if known && !it.sliced.holds(&it.data.block, userKey) {
		first, last = 0, it.sliced.slices()-1
		if !it.enter(last) {
			return false
		}
	}
	for s := last; s > first; s-- {
		if !it.data.First() {
			return false
		}
		if it.data.before(it.data.key, userKey, trailer) {
			return true
		}
		if !it.enter(s - 1) {
			return false
		}
	}
	return true
}

// nextSlice moves to the first entry after the current slice, in the same block.
func (it *Iter) nextSlice() bool {
	for it.sliced != nil && !it.failed() && it.slice+1 < it.sliced.slices() {
		if it.enter(it.slice+1) && it.data.First() {
			return true
		}
	}
	return false
}

// prevSlice moves to the last entry before the current slice, in the same block.
func (it *Iter) prevSlice() bool {
	for it.sliced != nil && !it.failed() && it.slice > 0 {
		if it.enter(it.slice-1) && it.dataLast() {
			return true
		}
	}
	return false
}
