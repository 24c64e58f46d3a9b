package memtable

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base"
)

// The layout of the arena and of a node.
//
// Offsets count bytes from the head's own position in the arena:
//
//	+------------+--------+--------+-----+--------+-----------+
//	| head tower | head   | node   | ... | node   | free      |
//	+------------+--------+--------+-----+--------+-----------+
//	  44 bytes   ^ 16 bytes                       ^           ^
//	             offset 0                         Size        Capacity
//
// A node is drawn around its offset. Links are in the machine's byte order: no node reaches the disk.
//
//	                    offset
//	+----------+-------+---------+------+--------+----------+----------+---------+-------+-----+
//	| next h-1 |  ...  | next[0] | prev | keyLen | valueLen | user key | trailer | value | pad |
//	+----------+-------+---------+------+--------+----------+----------+---------+-------+-----+
//
//	at        size  meaning
//	-4*level  4     next[level]: offset of the successor on that level, 0 at the end
//	+4        4     prev: offset of a predecessor on the bottom level, 0 for the head
//	+8        4     length of the user key, k
//	+12       4     length of the value, v
//	+16       k     user key
//	+16+k     8     trailer, fixed64 little-endian, as in package base: user key and
//	                trailer form the internal key, which iterators return in place
//	+24+k     v     value
//	+24+k+v   0-3   padding to a multiple of 4
//
// The entry ("key", 7, KindSet) -> "val", of height 1 and alone in its memtable, is at offset 16 and occupies 32 bytes
// (here on a little-endian machine):
//
//	00 00 00 00  00 00 00 00  03 00 00 00  03 00 00 00      next[0], prev, lengths
//	6b 65 79  01 07 00 00 00 00 00 00  76 61 6c  00 00      user key, trailer, value, padding

// Positions of a node's parts, in bytes from the node's own offset. The links of levels above 0 are stored before it,
// so that the parts that every comparison reads have fixed positions whatever the tower's height.
const (
	linkSize       = 4
	prevOffset     = 4
	keyLenOffset   = 8
	valueLenOffset = 12
	keyOffset      = 16

	nodeAlign = 4
)

const (
	// With maxHeight levels, searches among up to 4^12 = 16 M entries have the expected
	// cost; the 10^8 smallest entries that fit in 4 GiB add two dozen steps on the top level.
	maxHeight = 12
	// heightBits random bits, all zero, raise a tower by a level: one node in four.
	heightBits = 2
	// headTower is the position of the head's own offset in the arena, in bytes.
	headTower = (maxHeight - 1) * linkSize
	// headSize is the size of the head in every arena, in bytes.
	headSize = headTower + keyOffset
)

// end is both the head's offset and the link value that means "no node on this side": the bottom level is a ring
// through the head, whose prev is the last entry. It is zero so that a zeroed arena is an empty list.
const end = 0

// nodes reads the nodes of an arena. Offsets count bytes from the head.
//
// Its use of unsafe is sound for these reasons:
//
//   - head points into a []uint32 that lives as long as any pointer to it.
//   - Every offset comes from arena.alloc, which gives each node a separate range within
//     that slice, aligned to 4 bytes.
//   - Links are accessed only through atomic.Uint32, which has a uint32's size and
//     alignment, except on a level on which their node is not linked yet.
//   - Those links and the other parts of a node are written before the compare-and-swap
//     that publishes its offset, and never after. So a plain read that follows an atomic
//     load of the offset cannot race.
type nodes struct {
	head unsafe.Pointer
}

func (n nodes) at(offset uint32, delta uintptr) unsafe.Pointer {
	return unsafe.Add(n.head, uintptr(offset)+delta)
}

// next returns the link from node to its successor on level.
func (n nodes) next(node uint32, level int) *atomic.Uint32 {
	return (*atomic.Uint32)(n.at(node, -uintptr(level)*linkSize))
}

// nextWord is next for a node that is not linked on that level yet.
func (n nodes) nextWord(node uint32, level int) *uint32 {
	return (*uint32)(n.at(node, -uintptr(level)*linkSize))
}

// prev returns the back link on the bottom level. It always points to a node that precedes this one, but not
// necessarily to the nearest one while an insertion is under way between the two.
func (n nodes) prev(node uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(n.at(node, prevOffset))
}

// prevWord is prev for a node that is not linked yet.
func (n nodes) prevWord(node uint32) *uint32 {
	return (*uint32)(n.at(node, prevOffset))
}

func (n nodes) keyLen(node uint32) uint32 {
	return *(*uint32)(n.at(node, keyLenOffset))
}

func (n nodes) valueLen(node uint32) uint32 {
	return *(*uint32)(n.at(node, valueLenOffset))
}

func (n nodes) userKey(node uint32) []byte {
	return unsafe.Slice((*byte)(n.at(node, keyOffset)), n.keyLen(node))
}

func (n nodes) internalKey(node uint32) []byte {
	return unsafe.Slice((*byte)(n.at(node, keyOffset)), n.keyLen(node)+base.TrailerLen)
}

func (n nodes) trailer(node uint32) uint64 {
	b := (*[base.TrailerLen]byte)(n.at(node, keyOffset+uintptr(n.keyLen(node))))
	return binary.LittleEndian.Uint64(b[:])
}

func (n nodes) value(node uint32) []byte {
	size := n.valueLen(node)
	if size == 0 {
		// An empty value at the end of the arena has no byte that a pointer may point to.
		return []byte{}
	}
	return unsafe.Slice((*byte)(n.at(node, keyOffset+uintptr(n.keyLen(node))+base.TrailerLen)), size)
}

// keyPrefix returns the first 8 bytes of a key as a big-endian integer. A shorter key is padded with zeros.
func keyPrefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var padded [8]byte
	copy(padded[:], key)
	return binary.BigEndian.Uint64(padded[:])
}
