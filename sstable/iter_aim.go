package sstable

import "github.com/sievedb/sievedb/internal/base"

// aim is where a seek will begin: data block i, and what the cache has of it.
type aim struct {
	i    int
	held *Block // only to be touched; nil for nothing
}

// Aim prepares SeekAimed to ikey of several open iterators. Seeks made one after the other
// wait for memory time and again: for the slot of a block, the cache's entry, its first
// line, and the slice or the restart interval that is searched. Here the iterators wait for
// each of these side by side. Nothing is read from disk, and no iterator moves.
func Aim(its []*Iter, ikey []byte) {
	userKey, trailer := base.UserKey(ikey), base.Trailer(ikey)
	for _, it := range its {
		it.aim = aim{i: it.ix.find(it.r.cmp, userKey, trailer)}
		if it.r.cache != nil && it.aim.i < it.ix.n {
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

// SeekAimed is SeekGE to ikey, for which Aim has prepared it, and which has not moved since.
func (it *Iter) SeekAimed(ikey []byte) bool {
	it.inOrder = 0
	it.aim.held = nil // not to be kept alive
	return it.seekFrom(it.aim.i, base.UserKey(ikey), base.Trailer(ikey))
}

// touchFirst loads what the search in the block aimed at begins with: the first line of
// slices, all of a block that is compressed otherwise, an interval of one that is not.
func (it *Iter) touchFirst(userKey []byte) byte {
	b := it.aim.held
	switch {
	case b == nil:
		return 0
	case b.kind == slicedKind:
		return b.data[0] ^ it.touchGuessed(b, userKey)
	case b.kind != NoCompression:
		return touch(b.data) ^ touch(restBytes(b.rest))
	case it.ix.pivots != nil:
		if s, ok := it.ix.pivots[it.aim.i].find(b, userKey); ok {
			return s.touch(b)
		}
	}
	return b.data[len(b.data)-1] // the restart points
}

// touchSlice loads the slice that will be searched, if the block aimed at is in slices.
func (it *Iter) touchSlice(userKey []byte) byte {
	b := it.aim.held
	if b == nil || b.kind != slicedKind {
		return 0
	}
	_, last, _ := b.findSlice(userKey)
	return b.touchStored(b.sliceStart(last), b.sliceEnd(last))
}

// touchGuessed loads what lies where the slice of b that will be searched should be, going by
// the pivots, so that touchSlice does not wait first for b's beginning and then for that.
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

// guessSlice returns where the slice that begins at s should be stored, if all that b holds
// can be compressed alike, with half a line more on both sides.
func (b *Block) guessSlice(s start) (from, to int) {
	n := int64(b.stored())
	head := n / 64 // of the slices' prefixes and ends, about
	place := func(p int) int { return int(head + (n-head)*int64(p)/int64(b.entriesEnd)) }
	return max(place(s.p)-cacheLine/2, 0), min(place(s.limit)+cacheLine/2, int(n))
}

// touchStored loads the stored bytes [start, end) of b.
func (b *Block) touchStored(start, end int) (all byte) {
	n := len(b.data)
	if start < n {
		all = touch(b.data[start:min(end, n)])
	}
	if end > n {
		all ^= touch(restBytes(b.rest)[max(start-n, 0) : end-n])
	}
	return all
}
