package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// aim is where a seek will begin: data block i, and its cached form.
type aim struct {
	i    int
	held *Block // only to be touched; nil if it is not in the cache
}

// Aim prepares several open iterators for SeekAimed to ikey. A seek waits for memory several times: for the slot of a
// block, the cache's entry, its first cache line, and the slice or restart interval that it searches. Aim makes the
// iterators wait for each of these together, not one after another. It reads nothing from disk and moves no iterator.
//
// The cache's entries are looked at after the search of the last table: the processor does not
// look far enough ahead to search one table while it waits for the entry of another.
func Aim(its []*Iter, ikey []byte) {
	userKey, trailer := base.UserKey(ikey), base.Trailer(ikey)
	for _, it := range its {
		i := it.ix.find(it.r.cmp, userKey, trailer)
		it.aim = aim{i: i}
		if i < len(it.ix.pivots) {
			it.touched += it.ix.pivots[i].touch()
		}
	}
	for _, it := range its {
		if it.r.cache != nil && it.aim.i < it.ix.Len() && !it.skips(it.aim.i) {
			it.aim.held = it.ix.slots[it.aim.i].Peek()
		}
	}
	for _, it := range its {
		it.touched += it.touchFirst(userKey)
	}
	for _, it := range its {
		it.touched += it.touchSlice(userKey)
	}
}

// SeekAimed is SeekGE to the ikey for which Aim prepared the iterator. The iterator must not have moved since.
func (it *Iter) SeekAimed(ikey []byte) bool {
	it.inOrder = 0
	it.aim.held = nil // not to be kept alive
	return it.seekFrom(it.aim.i, base.UserKey(ikey), base.Trailer(ikey))
}

// touchFirst loads the bytes with which the search in the block begins: the first cache line of a block in slices, all
// of a block compressed otherwise, or an interval of one that is not compressed.
func (it *Iter) touchFirst(userKey []byte) byte {
	b := it.aim.held
	switch {
	case b == nil:
		return 0
	case b.kind == slicedKind:
		return b.data[0] ^ it.touchGuessed(b, userKey)
	case b.kind != NoCompression:
		return hugepages.Touch(b.data) ^ hugepages.Touch(restBytes(b.rest))
	case it.ix.pivots != nil:
		if s, ok := it.ix.pivots[it.aim.i].find(b, userKey); ok {
			return s.touch(b)
		}
	}
	return b.data[len(b.data)-1] // the restart points
}

// touchSlice loads the slice that will be searched, if the block is in slices.
func (it *Iter) touchSlice(userKey []byte) byte {
	b := it.aim.held
	if b == nil || b.kind != slicedKind {
		return 0
	}
	_, last, _ := b.findSlice(userKey)
	return b.touchStored(b.sliceStart(last), b.sliceEnd(last))
}

// touchGuessed loads the bytes where the slice of b that will be searched should be, as estimated from the pivots.
// Otherwise touchSlice would wait for b's beginning and then for the slice.
func (it *Iter) touchGuessed(b *Block, userKey []byte) byte {
	if it.ix.pivots == nil {
		return 0
	}
	s, ok := it.ix.pivots[it.aim.i].find(b, userKey)
	if !ok {
		return 0
	}
	return b.touchStored(b.guessSlice(s))
}

// guessSlice returns where the slice that begins at s should be stored, assuming that all
// slices of b compress equally well, with half a cache line more on both sides.
func (b *Block) guessSlice(s start) (from, to int) {
	n := int64(b.stored())
	head := n / 64 // approximate size of the slices' prefixes and ends
	place := func(p int) int { return int(head + (n-head)*int64(p)/int64(b.entriesEnd)) }
	return max(place(s.p)-hugepages.CacheLine/2, 0), min(place(s.limit)+hugepages.CacheLine/2, int(n))
}

// touchStored loads the stored bytes [start, end) of b.
func (b *Block) touchStored(start, end int) (all byte) {
	n := len(b.data)
	if start < n {
		all = hugepages.Touch(b.data[start:min(end, n)])
	}
	if end > n {
		all ^= hugepages.Touch(restBytes(b.rest)[max(start-n, 0) : end-n])
	}
	return all
}
