// Package blocks lists the data blocks of a table in little memory: where each is, and a separator for each, an
// internal key between the keys of the block and those of the next one. With dense or random keys a block takes 17
// bytes, 13 if separators are shorter than keys. Beside the numbers that a search needs, keys of 16 bytes and handles
// would take 40.
package blocks

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/util"
)

// List is the data blocks of a table, in their order. Block i is at Handle(i), its last key is at or before separator
// i, and that is before the first key of block i+1. Blocks do not overlap. A List is immutable; a Builder makes it.
type List struct {
	n int

	// prefixes are, as big-endian numbers padded with zeros, the eight bytes of each separator's user key that follow
	// common, which all but the last begin with. They order as the keys do, unless they are equal. The last separator
	// may be any successor of the table's last key, such as "1" for "0017"; if it does not begin with common, its
	// prefix is the greatest number. They exist only for bytewise comparers. Most searches read no other part of the
	// list.
	prefixes []uint64
	common   []byte
	// tops are the last prefixes of each whole group of groupLen prefixes, which fill a cache line. There are few
	// enough tops to stay in the processor's cache, so a search waits only for the cache line of one group.
	tops []uint64

	// All separators but the last are in full, or short. Few that cannot be short are in full
	// among others: longs has their blocks, in ascending order.
	full  fullKeys
	longs []uint32
	// Short, a separator's user key is common and its prefix without the zeros at its end,
	// which it has none of, and codes has its trailer: see code. nil: all are shortTrailer.
	codes  []uint32
	oldest uint64 // the least sequence number in codes
	last   []byte // the last separator

	// The places are in starts if the blocks are contiguous and before 4 GiB: block i begins
	// at starts[i], and its trailer ends at starts[i+1]. Else they are in handles.
	starts  []uint32
	handles []codec.Handle
}

// fullKeys are keys one after the other. The zero value has none.
type fullKeys struct {
	bytes []byte
	ends  []uint32
}

func (f *fullKeys) add(key []byte) {
	f.bytes = append(f.bytes, key...)
	f.ends = append(f.ends, uint32(len(f.bytes)))
}

func (f *fullKeys) at(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = f.ends[i-1]
	}
	return f.bytes[begin:f.ends[i]:f.ends[i]]
}

func (f *fullKeys) clone() fullKeys {
	return fullKeys{bytes: append([]byte(nil), f.bytes...), ends: append([]uint32(nil), f.ends...)}
}

// groupLen is how many prefixes, or slots of eight bytes beside them, a cache line holds.
const groupLen = hugepages.CacheLine / 8

// shortTrailer is the trailer of a separator that is shorter than the key before it.
const shortTrailer = base.MaxSeq<<8 | uint64(base.KindSeparator)

const (
	// shortCode stands for shortTrailer in codes.
	shortCode = math.MaxUint32
	// maxAbove is how much newer than oldest a sequence number in codes may be.
	maxAbove = shortCode>>kindBits - 1
	// kindBits is the number of bits of a code that have the kind.
	kindBits = 2
)

// code returns the number that stands for a trailer in codes: its sequence number above oldest, and its kind.
func (l *List) code(trailer uint64) uint32 {
	if trailer == shortTrailer {
		return shortCode
	}
	return uint32((trailer>>8-l.oldest)<<kindBits | trailer&(1<<kindBits-1))
}

// Len returns the number of blocks.
func (l *List) Len() int { return l.n }

// Offset returns where block i begins in the file, in bytes.
func (l *List) Offset(i int) uint64 {
	if l.starts != nil {
		return uint64(l.starts[i])
	}
	return l.handles[i].Offset
}

// Size returns the size of block i without its trailer, in bytes.
func (l *List) Size(i int) int {
	if l.starts != nil {
		return int(l.starts[i+1]-l.starts[i]) - codec.BlockTrailerLen
	}
	return int(l.handles[i].Size)
}

// Handle returns the place of block i.
func (l *List) Handle(i int) codec.Handle {
	return codec.Handle{Offset: l.Offset(i), Size: uint64(l.Size(i))}
}

// End returns the offset after the last block and its trailer, 0 if there is none.
func (l *List) End() uint64 {
	if l.n == 0 {
		return 0
	}
	return l.Handle(l.n - 1).End()
}

// Separator returns separator i, an internal key. It may allocate, and the caller must not change it.
func (l *List) Separator(i int) []byte {
	if key := l.kept(i); key != nil {
		return key
	}
	return l.AppendSeparator(make([]byte, 0, l.SeparatorLen(i)), i)
}

// kept returns separator i if it is kept as a whole, nil if not.
func (l *List) kept(i int) []byte {
	switch {
	case i == l.n-1:
		return l.last
	case l.longs != nil:
		if place, ok := slices.BinarySearch(l.longs, uint32(i)); ok {
			return l.full.at(place)
		}
	case l.full.ends != nil:
		return l.full.at(i)
	}
	return nil
}

// AppendSeparator appends separator i to dst.
func (l *List) AppendSeparator(dst []byte, i int) []byte {
	if key := l.kept(i); key != nil {
		return append(dst, key...)
	}
	var rest [8]byte
	util.PutFixed64(rest[:], bits.ReverseBytes64(l.prefixes[i]))
	dst = append(append(dst, l.common...), rest[:l.restLen(i)]...)
	return util.AppendFixed64(dst, l.trailer(i))
}

// SeparatorLen returns the length of separator i in bytes.
func (l *List) SeparatorLen(i int) int {
	if key := l.kept(i); key != nil {
		return len(key)
	}
	return len(l.common) + l.restLen(i) + base.TrailerLen
}

// restLen returns how many bytes of short separator i follow common.
func (l *List) restLen(i int) int { return (64 - bits.TrailingZeros64(l.prefixes[i]) + 7) / 8 }

// trailer returns that of short separator i.
func (l *List) trailer(i int) uint64 {
	if l.codes == nil || l.codes[i] == shortCode {
		return shortTrailer
	}
	return base.MakeTrailer(l.oldest+uint64(l.codes[i]>>kindBits), base.Kind(l.codes[i]&(1<<kindBits-1)))
}

// CompareUser compares the user key of separator i with another one, and returns a negative number, 0 or a positive
// one.
func (l *List) CompareUser(c *base.Comparer, i int, userKey []byte) int {
	if i == l.n-1 || l.full.ends != nil {
		if key := l.kept(i); key != nil {
			return c.Compare(base.UserKey(key), userKey)
		}
	}
	if !bytes.HasPrefix(userKey, l.common) {
		return bytes.Compare(l.common, userKey)
	}
	if p := util.Prefix64(userKey, len(l.common)); l.prefixes[i] != p {
		return cmp.Compare(l.prefixes[i], p)
	}
	return cmp.Compare(len(l.common)+l.restLen(i), len(userKey)) // the separator ends in no zero
}

// Compare compares separator i with the internal key (userKey, trailer).
func (l *List) Compare(c *base.Comparer, i int, userKey []byte, trailer uint64) int {
	if order := l.CompareUser(c, i, userKey); order != 0 {
		return order
	}
	return cmp.Compare(trailer, l.Trailer(i)) // trailers are in descending order
}

// Trailer returns the trailer of separator i.
func (l *List) Trailer(i int) uint64 {
	if key := l.kept(i); key != nil {
		return base.Trailer(key)
	}
	return l.trailer(i)
}

// Place is a step of a search. Most searches end in the group of blocks from First on.
type Place struct {
	First  int
	prefix uint64
	state  uint8
}

const (
	searchAll  uint8 = iota // without prefixes
	searchHere              // in the group
	searchNone              // the place is First
	searchLast              // First is the last block, or after it
)

// Aim begins the search for the first separator at or after userKey, so that the caller can load what it has about
// those blocks meanwhile. Find ends it.
func (l *List) Aim(userKey []byte) Place {
	if l.prefixes == nil {
		return Place{state: searchAll}
	}
	c := len(l.common)
	if len(userKey) < c || string(userKey[:c]) != string(l.common) {
		if bytes.Compare(userKey, l.common) < 0 {
			return Place{state: searchNone}
		}
		return Place{First: l.n - 1, state: searchLast} // only the last separator may be after it
	}
	p := util.Prefix64(userKey, c)
	return Place{First: groupLen * util.LowerBound64(l.tops, p), prefix: p, state: searchHere}
}

// Find returns the first block whose separator is at or after the internal key (userKey, trailer), or Len() if there is
// none. p is from Aim for that user key. No other block can hold the first table entry at or after that key, with one
// exception: see Continues.
func (l *List) Find(p Place, c *base.Comparer, userKey []byte, trailer uint64) int {
	lo, hi := 0, l.n
	switch p.state {
	case searchHere:
		if lo, hi = l.withPrefix(p); lo == hi {
			return lo
		}
	case searchNone:
		return p.First
	case searchLast:
		lo = p.First
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.Compare(c, mid, userKey, trailer) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// withPrefix narrows a search to [lo, hi), the separators with the target's prefix, or returns the result as lo == hi.
func (l *List) withPrefix(p Place) (lo, hi int) {
	lo = p.First + util.LowerBound64(l.prefixes[p.First:min(p.First+groupLen, l.n)], p.prefix)
	if lo == l.n || l.prefixes[lo] != p.prefix {
		return lo, lo
	}
	// Equal prefixes are adjacent, and usually few.
	for hi = lo + 1; hi < l.n && l.prefixes[hi] == p.prefix; hi++ {
		if hi-lo == 8 {
			if p.prefix == math.MaxUint64 {
				return lo, l.n
			}
			return lo, hi + util.LowerBound64(l.prefixes[hi:], p.prefix+1)
		}
	}
	return lo, hi
}

// Continues reports whether the search for userKey must continue after block i if all of that block is before the
// target: the separator is the target's own user key, so a version of it may begin the next block. That requires a
// target with the trailer of a shortened separator, which has the greatest sequence number.
func (l *List) Continues(c *base.Comparer, i int, userKey []byte) bool {
	return i+1 < l.n && l.CompareUser(c, i, userKey) == 0
}

// MemBytes returns the memory of the list beside the List itself, in bytes.
func (l *List) MemBytes() uint64 {
	keys := cap(l.full.bytes) // common and last are in it if all are
	if l.full.ends == nil || l.longs != nil {
		keys += cap(l.common) + cap(l.last)
	}
	return uint64(keys) + 4*uint64(cap(l.longs)+cap(l.full.ends)+cap(l.codes)+cap(l.starts)) +
		8*uint64(cap(l.prefixes)+cap(l.tops)) + uint64(unsafe.Sizeof(codec.Handle{}))*uint64(cap(l.handles))
}
