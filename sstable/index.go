package sstable

import (
	"math"
	"sync"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/blocks"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/limit/cache"
)

// index is a table's index block, decoded, with what lookups keep for each data block. The list is immutable.
type index struct {
	blocks.List
	slots []cache.Slot[Block] // of the block cache, one per block; nil without a cache
	// pivots of the blocks are made when a block is first searched. nil without slots or if the order is not bytewise.
	pivots []pivots
	lone   blocks.Lone
}

// builders saves decoders the memory in which they collect the blocks of an index.
var builders = sync.Pool{New: func() any { return new(blocks.Builder) }}

// maxBuilder bounds what a builder keeps for the next index, in bytes.
const maxBuilder = 1 << 20

func putBuilder(b *blocks.Builder) {
	b.Reset(maxBuilder)
	builders.Put(b)
}

// maxIndexKeys bounds the size of the rebuilt separators, in bytes, to that of the decoded block or 32 MiB, so that
// shared prefixes cannot use up memory. Writers share no prefixes in an index (its restart interval is 1).
func maxIndexKeys(decoded int) uint64 {
	return min(max(32<<20, uint64(decoded)), math.MaxInt32)
}

// decodeIndex reads an index block. limit is the number of bytes before the footer;
// every data block must be within them.
func decodeIndex(data []byte, cmp *base.Comparer, limit uint64) (*index, error) {
	b, err := newBlock(data, indexPart)
	if err != nil {
		return nil, err
	}
	if ix := decodePlain(&b, cmp, limit); ix != nil {
		return ix, nil
	}
	return decodeAnyEntries(&b, cmp, limit)
}

// decodeAnyEntries decodes the entries of any index block, and says what is wrong with it.
func decodeAnyEntries(b *Block, cmp *base.Comparer, limit uint64) (*index, error) {
	n, keyBytes, err := measureIndex(b, limit)
	if err != nil {
		return nil, err
	}
	list := builders.Get().(*blocks.Builder)
	defer putBuilder(list)
	list.Grow(n, keyBytes)
	err = b.eachEntry(indexPart, func(key, value []byte) error {
		return addBlock(list, cmp, key, value, limit)
	})
	if err != nil {
		return nil, err
	}
	l, ok := list.List(cmp)
	if !ok { // addBlock compares the separators too
		return nil, base.Corruptf(indexPart, -1, "its separators do not ascend")
	}
	return &index{List: l}, nil
}

const indexPart = "index block"

// measureIndex counts the entries and the bytes of their separators, so that memory for
// them is allocated once. It rejects more than the table's size can justify.
func measureIndex(b *Block, limit uint64) (n int, keyBytes uint64, err error) {
	const smallest = 4 + blockTrailerLen // of a block and its trailer
	most := maxIndexKeys(len(b.data))
	err = b.eachEntry(indexPart, func(key, _ []byte) error {
		n++
		keyBytes += uint64(len(key))
		switch {
		case len(key) < base.TrailerLen:
			return base.Corruptf(indexPart, -1, "separator %d has %d bytes; want %d or more", n-1, len(key), base.TrailerLen)
		case keyBytes > most:
			return base.Corruptf(indexPart, -1, "its %d bytes expand to too many bytes of separators; want at most %d", len(b.data), most)
		case uint64(n) > limit/smallest:
			return base.Corruptf(indexPart, -1, "it lists more data blocks than fit in the %d bytes before the footer; want at most %d", limit, limit/smallest)
		}
		return nil
	})
	return n, keyBytes, err
}

// addBlock adds an entry of an index to the list of blocks.
func addBlock(list *blocks.Builder, cmp *base.Comparer, key, value []byte, limit uint64) error {
	n := list.Len()
	if prev := list.Last(); prev != nil && base.CompareInternal(cmp, prev, key) > 0 {
		return base.Corruptf(indexPart, -1, "separator %d sorts before separator %d; want ascending order", n, n-1)
	}
	h, _, err := codec.DecodeHandle(value, indexPart)
	if err != nil {
		return err
	}
	if err := h.Check(limit, indexPart, dataPart); err != nil {
		return err
	}
	// Every writer appends data blocks in the order of their keys. An index that lists a block
	// twice would make an iteration read and decompress more than the file holds.
	if end := list.End(); h.Offset < end {
		return base.Corruptf(indexPart, -1, "data block %d begins at offset %d, within or before data block %d; "+
			"want offset %d or above", n, h.Offset, n-1, end)
	}
	list.Add(key, h)
	return nil
}

// find returns the block in which a lookup of the internal key (userKey, trailer) begins: see blocks.List.Find.
func (ix *index) find(cmp *base.Comparer, userKey []byte, trailer uint64) int {
	at := ix.Aim(userKey)
	if at.First < len(ix.slots) {
		ix.slots[at.First].Touch()
	}
	return ix.Find(at, cmp, userKey, trailer)
}

// memBytes returns the memory that the index uses, including the slots, in bytes.
func (ix *index) memBytes() uint64 {
	return uint64(unsafe.Sizeof(*ix)) + ix.MemBytes() +
		uint64(cap(ix.slots))*uint64(unsafe.Sizeof(cache.Slot[Block]{})) +
		uint64(cap(ix.pivots))*uint64(unsafe.Sizeof(pivots{})) + uint64(cap(ix.lone))
}

// blockSpan is a range of blocks that are contiguous in the file.
type blockSpan struct {
	first, end int // blocks [first, end)
	offset     uint64
	size       uint64 // bytes, including trailers
}

// span returns block i and the blocks on one side of it that a read of at most most
// bytes can cover. Blocks other than i are within [lo, hi).
func (ix *index) span(i int, forward bool, most uint64, lo, hi int) blockSpan {
	h := ix.Handle(i)
	s := blockSpan{first: i, end: i + 1, offset: h.Offset, size: h.Size + blockTrailerLen}
	for forward && s.end < hi {
		next := ix.Handle(s.end)
		if next.Offset != s.offset+s.size || s.size+next.Size+blockTrailerLen > most {
			break
		}
		s.size += next.Size + blockTrailerLen
		s.end++
	}
	for !forward && s.first > lo {
		prev := ix.Handle(s.first - 1)
		if prev.End() != s.offset || s.size+prev.Size+blockTrailerLen > most {
			break
		}
		s.size += prev.Size + blockTrailerLen
		s.offset = prev.Offset
		s.first--
	}
	return s
}
