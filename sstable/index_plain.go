package sstable

import (
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/base/codec"
)

// Index blocks usually are plain: each entry has its own restart point, and so its whole key. All writers make them
// so, LevelDB included. A plain index is decoded without the general walk over a block, which calls a function and
// copies a key for each entry, once to measure and once to add. Any other block, sound or not, is left to that walk,
// which says what is wrong.

// decodePlain is decodeAnyEntries for a plain index. It returns nil if b is none, or not sound.
func decodePlain(b *Block, cmp *base.Comparer, limit uint64) *index {
	const smallest = 4 + blockTrailerLen // of a block and its trailer
	if b.empty() || uint64(b.numRestarts) > limit/smallest || b.entriesEnd > math.MaxInt32/2 {
		return nil
	}
	list := builders.Get().(*blocks.Builder)
	defer putBuilder(list)
	list.Grow(int(b.numRestarts), uint64(b.entriesEnd)) // which has the separators
	if !addPlain(list, b, limit) {
		return nil
	}
	l, ok := list.List(cmp)
	if !ok {
		return nil
	}
	return &index{List: l}
}

// addPlain adds the entries of a plain index to list, which is empty. It does not compare their keys. It returns false
// if b is none, or if measureIndex or addBlock would return another error.
func addPlain(list *blocks.Builder, b *Block, limit uint64) bool {
	p, dataEnd := 0, uint64(0)
	for i := range int(b.numRestarts) {
		e, ok := readEntry(b.data, p, b.entriesEnd)
		if !ok || e.shared != 0 || p != b.restart(i) || e.value-e.suffix < base.TrailerLen {
			return false
		}
		h, _, err := codec.DecodeHandle(b.data[e.value:e.valueEnd], indexPart)
		if err != nil || h.Offset < dataEnd || h.Check(limit, indexPart, dataPart) != nil {
			return false
		}
		list.Add(b.data[e.suffix:e.value], h)
		dataEnd, p = h.End(), e.valueEnd
	}
	return p == b.entriesEnd
}
