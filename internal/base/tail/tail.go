// Package tail reads the end of a table once, for all parts that are there and are needed to open it.
package tail

import (
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base/codec"
)

// Everything needed to open a table is at the end of its file, in LevelDB's tables as in ours:
//
//	... data | filters | properties | metaindex | index | footer
//
// Following the handles would cost a read each for footer, metaindex, filter and index. So opening first reads the
// tail, a piece of the end that is likely to have them all. Bytes that the tail lacks are read separately; so are all
// of them if the tail cannot be read. On a cold disk a lookup of an absent key reads 0.043 times instead of 0.088.

// Guess says how much of a table's end to read first, from what the tables opened earlier with the same Guess needed:
// filter and index have much the same share of all tables of a store. Any goroutine may use it. The zero Guess is ready
// for use.
type Guess struct {
	share atomic.Uint32 // of a file, in 1/tailUnits, plus 1; 0 if unknown
}

const (
	tailUnits = 1024

	// firstShare is read of the first table, in 1/tailUnits of its file. Entries of
	// 100 bytes with two filters of ten bits per key need 50 units.
	firstShare = 64

	// tailFixed is a generous size of properties, metaindex and footer, in bytes. It does not grow with the table.
	tailFixed = 1 << 10

	// Reading less than minTail bytes costs as much as reading minTail. If the guess is above maxTail, only minTail
	// bytes are read: there are few such large tables, and a wrong guess would waste a large read.
	minTail = 4 << 10
	maxTail = 1 << 20
)

// bytes returns how much of the end of a file of size bytes to read.
func (g *Guess) bytes(size uint64) uint64 {
	share := uint64(firstShare)
	if known := g.share.Load(); known > 0 {
		share = uint64(known) - 1
		share += share/8 + 1 // tables differ a little
	}
	want := uint64(minTail)
	if size <= maxTail*tailUnits { // else one part is above maxTail
		if w := size*share/tailUnits + tailFixed; w <= maxTail {
			want = max(want, w)
		}
	}
	return min(want, size)
}

// Learn records what o, which has found all that it needs, needed.
func (g *Guess) Learn(o *Opening) { g.learn(o.size, o.neededTail) }

// learn records that the last tail bytes of a table of size bytes were needed.
func (g *Guess) learn(size, tail uint64) {
	if size <= maxTail*tailUnits {
		g.share.Store(uint32((tail-min(tail, tailFixed))*tailUnits/size) + 1)
	}
}

// Cost is how much the opening of a table read from its file.
type Cost struct {
	Reads, Bytes uint64
}

// Opening is the state while a table is opened.
type Opening struct {
	cost Cost
	size uint64 // of the file

	tail   []byte // the end of the file that was read
	from   uint64 // where it begins
	memory *[]byte

	// needed is how many of the last neededTail bytes of the file were needed.
	needed, neededTail uint64
}

// tailMemory has the memory of tails. The largest are left to the garbage collector.
var tailMemory = sync.Pool{New: func() any { return new([]byte) }}

// A ReadFunc fills buf from offset off of a file.
type ReadFunc func(buf []byte, off int64) error

// Read reads as much of the end of a file of size bytes as g says. If that fails there is no tail
// and no error: the bad part may be one that is not needed.
func (o *Opening) Read(read ReadFunc, size uint64, g *Guess) { o.read(read, size, g.bytes(size)) }

func (o *Opening) read(read ReadFunc, size, n uint64) {
	o.size = size
	o.memory = tailMemory.Get().(*[]byte)
	*o.memory = codec.Sized(*o.memory, int(n))
	o.cost.add(n)
	if read(*o.memory, int64(size-n)) == nil {
		o.tail, o.from = *o.memory, size-n
	}
}

// End releases the tail's memory, and returns the cost of the opening.
func (o *Opening) End() Cost {
	if o.memory != nil && cap(*o.memory) <= codec.MaxScratch {
		tailMemory.Put(o.memory)
	}
	return o.cost
}

// Take fills the end of buf, which is for the bytes of the file from offset on, with the
// bytes that the tail has. It returns the part of buf that must be read.
func (o *Opening) Take(buf []byte, offset uint64) (rest []byte) {
	end := offset + uint64(len(buf))
	if o.tail == nil || end <= o.from || end > o.size {
		o.cost.add(uint64(len(buf)))
		return buf
	}
	if offset >= o.from {
		copy(buf, o.tail[offset-o.from:])
		return nil
	}
	lacking := o.from - offset
	copy(buf[lacking:], o.tail)
	o.cost.add(lacking)
	return buf[:lacking]
}

// Has returns the stored block at h, whose handle was checked, with its trailer, or nil
// unless all of it is in the tail.
func (o *Opening) Has(h codec.Handle) []byte {
	if o.tail == nil || h.Offset < o.from {
		return nil
	}
	return o.tail[h.Offset-o.from : h.End()-o.from]
}

// Need records that the block at h was needed, so that the next table's tail includes it,
// unless most of that tail would be wasted. A nil Opening records nothing.
func (o *Opening) Need(h codec.Handle) {
	if o == nil {
		return
	}
	needed, tail := o.needed+h.Size+codec.BlockTrailerLen, o.size-h.Offset
	if tail <= 2*needed+tailFixed {
		o.needed, o.neededTail = needed, max(o.neededTail, tail)
	}
}

func (c *Cost) add(bytes uint64) {
	c.Reads++
	c.Bytes += bytes
}
