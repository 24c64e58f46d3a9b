package sstable

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/internal/limit/cache"
	"github.com/sievedb/sievedb/util"
)

// index is a table's index block, decoded into flat arrays. Entry i says that data
// block i is at block(i), and that its last key is at or before separator i, which
// is before the first key of block i+1. Blocks are stored in their order and do not
// overlap. The index is immutable except for slots and pivots.
type index struct {
	n int

	// prefixes are, as big-endian numbers padded with zeros, the eight bytes of each
	// separator's user key that follow common, which all but the last begin with. They
	// order as the keys do, unless they are equal. The last separator may be any
	// successor of the table's last key, such as "1" for "0017"; if it does not begin
	// with common, its prefix is the greatest number. They exist only for bytewise
	// comparers. Most searches read no other part of the index.
	prefixes []uint64
	common   []byte
	// tops are the last prefixes of each whole group of groupLen prefixes, which fill a
	// cache line. There are few enough tops to stay in the processor's cache, so a search
	// waits only for the cache line of one group and that of its slots.
	tops []uint64

	// Separator i, an internal key, is keys[keyStarts[i]:keyStarts[i+1]].
	keys      []byte
	keyStarts []uint32

	offsets []uint64
	sizes   []uint32

	slots []cache.Slot[Block] // of the block cache, one per block; nil without a cache
	// pivots of the blocks are made when a block is first searched. nil without slots or
	// if the order is not bytewise.
	pivots []pivots
}

// maxIndexKeys bounds the size of the rebuilt separators, in bytes, to that of the
// decoded block or 32 MiB, so that shared prefixes cannot use up memory. Writers
// share no prefixes in an index (its restart interval is 1).
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
	return decodeEntries(&b, cmp, limit)
}

// decodeEntries decodes the entries of an index block.
func decodeEntries(b *Block, cmp *base.Comparer, limit uint64) (*index, error) {
	if ix := decodePlain(b, cmp, limit); ix != nil {
		return ix, nil
	}
	return decodeAnyEntries(b, cmp, limit)
}

// decodeAnyEntries is decodeEntries for any block, and says what is wrong with it.
func decodeAnyEntries(b *Block, cmp *base.Comparer, limit uint64) (*index, error) {
	n, keyBytes, err := measureIndex(b, limit)
	if err != nil {
		return nil, err
	}
	ix := newIndex(n, keyBytes)
	err = b.eachEntry(indexPart, func(key, value []byte) error {
		return ix.add(cmp, key, value, limit)
	})
	if err != nil {
		return nil, err
	}
	if cmp.IsBytewise() {
		ix.makePrefixes()
	}
	return ix, nil
}

// newIndex returns an empty index with room for n entries with keyBytes bytes of separators.
func newIndex(n int, keyBytes uint64) *index {
	return &index{
		keys:      make([]byte, 0, keyBytes),
		keyStarts: append(make([]uint32, 0, n+1), 0),
		offsets:   make([]uint64, 0, n),
		sizes:     make([]uint32, 0, n),
	}
}

const indexPart = "index block"

// measureIndex counts the entries and the bytes of their separators, so that the
// index is allocated once and exactly. It rejects more than the table's size can
// justify.
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

// add appends an entry to an index being decoded.
func (ix *index) add(cmp *base.Comparer, key, value []byte, limit uint64) error {
	if prev := ix.last(); prev != nil && base.CompareInternal(cmp, prev, key) > 0 {
		return base.Corruptf(indexPart, -1, "separator %d sorts before separator %d; want ascending order", ix.n, ix.n-1)
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
	if end := ix.endOfData(); h.Offset < end {
		return base.Corruptf(indexPart, -1, "data block %d begins at offset %d, within or before data block %d; "+
			"want offset %d or above", ix.n, h.Offset, ix.n-1, end)
	}
	ix.n++
	ix.keys = append(ix.keys, key...)
	ix.keyStarts = append(ix.keyStarts, uint32(len(ix.keys)))
	ix.offsets = append(ix.offsets, h.Offset)
	ix.sizes = append(ix.sizes, uint32(h.Size))
	return nil
}

// groupLen is how many prefixes, or slots, a cache line holds.
const groupLen = hugepages.CacheLine / 8

func (ix *index) makePrefixes() {
	if ix.n == 0 {
		return
	}
	// They ascend, so a common prefix of two is also one of those between them.
	first := base.UserKey(ix.separator(0))
	ix.common = first[:base.SharedPrefixLen(first, base.UserKey(ix.separator(max(ix.n-2, 0))))]
	ix.prefixes = make([]uint64, ix.n)
	for i := range ix.prefixes {
		ix.prefixes[i] = math.MaxUint64
		if key := base.UserKey(ix.separator(i)); bytes.HasPrefix(key, ix.common) {
			ix.prefixes[i] = util.Prefix64(key, len(ix.common))
		}
	}
	ix.tops = make([]uint64, ix.n/groupLen)
	for i := range ix.tops {
		ix.tops[i] = ix.prefixes[(i+1)*groupLen-1]
	}
}

func (ix *index) separator(i int) []byte { return ix.keys[ix.keyStarts[i]:ix.keyStarts[i+1]] }

// last returns the last separator, or nil if there is none.
func (ix *index) last() []byte {
	if ix.n == 0 {
		return nil
	}
	return ix.separator(ix.n - 1)
}

func (ix *index) block(i int) handle { return handle{Offset: ix.offsets[i], Size: uint64(ix.sizes[i])} }

// find returns the first entry whose separator is at or after the internal key
// (userKey, trailer), or n if there is none. Its block is the only one that can
// hold the first table entry at or after that key, with one exception: see continues.
func (ix *index) find(cmp *base.Comparer, userKey []byte, trailer uint64) int {
	lo, hi := 0, ix.n
	if ix.prefixes != nil {
		if lo, hi = ix.findPrefix(userKey); lo == hi {
			return lo
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		sep := ix.separator(mid)
		c := cmp.Compare(base.UserKey(sep), userKey)
		if c < 0 || c == 0 && base.Trailer(sep) > trailer {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// findPrefix narrows find to [lo, hi), the separators with the target's prefix, or
// returns the result as lo == hi.
func (ix *index) findPrefix(userKey []byte) (lo, hi int) {
	c := len(ix.common)
	if len(userKey) < c || string(userKey[:c]) != string(ix.common) {
		if bytes.Compare(userKey, ix.common) < 0 {
			return 0, 0
		}
		return ix.n - 1, ix.n // only the last separator may be after it
	}
	p := util.Prefix64(userKey, c)
	lo = groupLen * util.LowerBound64(ix.tops, p)
	if lo < len(ix.slots) {
		ix.slots[lo].Touch()
	}
	lo += util.LowerBound64(ix.prefixes[lo:min(lo+groupLen, ix.n)], p)
	if lo == ix.n || ix.prefixes[lo] != p {
		return lo, lo
	}
	// Equal prefixes are adjacent, and usually few.
	for hi = lo + 1; hi < ix.n && ix.prefixes[hi] == p; hi++ {
		if hi-lo == 8 {
			if p == math.MaxUint64 {
				return lo, ix.n
			}
			return lo, hi + util.LowerBound64(ix.prefixes[hi:], p+1)
		}
	}
	return lo, hi
}

// continues reports whether the search for userKey must continue after block i if
// all of that block is before the target: the separator is the target's own user
// key, so a version of it may begin the next block. That requires a target with the
// trailer of a shortened separator, which has the greatest sequence number.
func (ix *index) continues(cmp *base.Comparer, i int, userKey []byte) bool {
	return i+1 < ix.n && cmp.Compare(base.UserKey(ix.separator(i)), userKey) == 0
}

// memBytes returns the memory that the index uses, including the slots, in bytes.
func (ix *index) memBytes() uint64 {
	return uint64(unsafe.Sizeof(*ix)) + uint64(cap(ix.keys)) + 4*uint64(cap(ix.keyStarts)+cap(ix.sizes)) +
		8*uint64(cap(ix.offsets)+cap(ix.prefixes)+cap(ix.tops)) +
		uint64(cap(ix.slots))*uint64(unsafe.Sizeof(cache.Slot[Block]{})) +
		uint64(cap(ix.pivots))*uint64(unsafe.Sizeof(pivots{}))
}

// endOfData returns the offset at which the last data block ends, 0 if there is none.
func (ix *index) endOfData() uint64 {
	if ix.n == 0 {
		return 0
	}
	return ix.block(ix.n - 1).End()
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
	h := ix.block(i)
	s := blockSpan{first: i, end: i + 1, offset: h.Offset, size: h.Size + blockTrailerLen}
	for forward && s.end < hi {
		next := ix.block(s.end)
		if next.Offset != s.offset+s.size || s.size+next.Size+blockTrailerLen > most {
			break
		}
		s.size += next.Size + blockTrailerLen
		s.end++
	}
	for !forward && s.first > lo {
		prev := ix.block(s.first - 1)
		if prev.End() != s.offset || s.size+prev.Size+blockTrailerLen > most {
			break
		}
		s.size += prev.Size + blockTrailerLen
		s.offset = prev.Offset
		s.first--
	}
	return s
}
