package sstable

import (
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
)

// Index blocks usually are plain: each entry has its own restart point, and so its whole key. All writers make them
// so, LevelDB included. A plain index is decoded without the general walk over a block, which calls a function and
// copies a key for each entry, once to measure and once to add. Any other block, sound or not, is left to that walk,
// which says what is wrong.

// decodePlain is decodeAnyEntries for a plain index. It returns nil if b is none, or not sound.
func decodePlain(b *Block, cmp *base.Comparer, limit uint64) *index {
	n, keyBytes, ok := measurePlain(b, limit)
	if !ok {
		return nil
	}
	ix := newIndex(n, keyBytes)
	if !ix.addPlain(b, limit) {
		return nil
	}
	if cmp.IsBytewise() {
		ix.makePrefixes()
	}
	if !ix.ascends(cmp) {
		return nil
	}
	return ix
}

// measurePlain is measureIndex for a plain index. ok is false if b is none, or if measureIndex would return an error.
func measurePlain(b *Block, limit uint64) (n int, keyBytes uint64, ok bool) {
	const smallest = 4 + blockTrailerLen // of a block and its trailer
	n = int(b.numRestarts)
	if b.empty() || uint64(n) > limit/smallest || b.entriesEnd > math.MaxInt32/2 {
		return 0, 0, false
	}
	p := 0
	for i := range n {
		e, ok := readEntry(b.data, p, b.entriesEnd)
		keyLen := e.value - e.suffix
		if !ok || e.shared != 0 || p != b.restart(i) || keyLen < base.TrailerLen {
			return 0, 0, false
		}
		keyBytes += uint64(keyLen)
		p = e.valueEnd
	}
	return n, keyBytes, p == b.entriesEnd
}

// addPlain adds the entries of a plain index to ix, which is empty. It does not compare their keys. It returns false
// if add would return another error.
func (ix *index) addPlain(b *Block, limit uint64) bool {
	dataEnd := uint64(0)
	for p := 0; p < b.entriesEnd; {
		e, _ := readEntry(b.data, p, b.entriesEnd) // measurePlain has checked it
		h, _, err := codec.DecodeHandle(b.data[e.value:e.valueEnd], indexPart)
		if err != nil || h.Offset < dataEnd || h.Check(limit, indexPart, dataPart) != nil {
			return false
		}
		ix.keys = append(ix.keys, b.data[e.suffix:e.value]...)
		ix.keyStarts = append(ix.keyStarts, uint32(len(ix.keys)))
		ix.offsets = append(ix.offsets, h.Offset)
		ix.sizes = append(ix.sizes, uint32(h.Size))
		dataEnd, p = h.End(), e.valueEnd
	}
	ix.n = len(ix.offsets)
	return true
}

// ascends reports whether each separator is at or after the one before it. If there are prefixes, they decide about
// most pairs.
func (ix *index) ascends(cmp *base.Comparer) bool {
	for i := 1; i < ix.n; i++ {
		// A separator without the common prefix has the greatest number, which says nothing.
		if ix.prefixes != nil && ix.prefixes[i-1] < ix.prefixes[i] && ix.prefixes[i] < math.MaxUint64 {
			continue
		}
		if base.CompareInternal(cmp, ix.separator(i-1), ix.separator(i)) > 0 {
			return false
		}
	}
	return true
}
