package sstable

import (
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/vfs"
)

// All that opening a table needs stands at the end of its file, in LevelDB's tables
// as in ours:
//
//	... data | filters | properties | metaindex | index | footer
//
// To follow the handles costs a read each for footer, metaindex, filter and index. So
// Open reads at once a piece of the end, the tail, that is likely to hold them. What it
// does not hold is read as the handles say, of a filter only the part that is lacking;
// a tail that cannot be read is done without.

// TailGuess says how much of a table's end Open should read, by what the tables
// opened before it with the same TailGuess needed: the tables of a store have much
// the same share of filter and index. Any goroutine may use it. The zero TailGuess
// knows nothing yet.
type TailGuess struct {
	share atomic.Uint32 // of a file, in 1/tailUnits, plus 1; 0: unknown
}

const (
	tailUnits = 1024

	// firstShare is read of the first table, in 1/tailUnits of its file. Entries of
	// 100 bytes with two filters of ten bits a key need 50 of them.
	firstShare = 64

	// tailRest is what properties, metaindex and footer take, generously, in bytes.
	// It does not grow with the table.
	tailRest = 1 << 10

	// Less than minTail bytes cost as much to read. Where the guess is above maxTail,
	// only minTail are read: such tables are few for what they hold, and what is read
	// in vain would be much.
	minTail = 4 << 10
	maxTail = 1 << 20
)

// bytes returns how much of the end of a file of size bytes to read.
func (g *TailGuess) bytes(size uint64) uint64 {
	share := uint64(firstShare)
	if known := g.share.Load(); known > 0 {
		share = uint64(known) - 1
		share += share/8 + 1 // tables differ a little
	}
	want := uint64(minTail)
	if size <= maxTail*tailUnits { // else one part is above maxTail
		if w := size*share/tailUnits + tailRest; w <= maxTail {
			want = max(want, w)
		}
	}
	return min(want, size)
}

// learn takes note that of a table of size bytes the last tail ones were needed.
func (g *TailGuess) learn(size, tail uint64) {
	if size <= maxTail*tailUnits {
		g.share.Store(uint32((tail-min(tail, tailRest))*tailUnits/size) + 1)
	}
}

// OpenCost is what the opening of a table read from its file.
type OpenCost struct {
	Reads, Bytes uint64
}

// opening is what a Reader has while Open is at work.
type opening struct {
	cost OpenCost
	size uint64 // of the file

	tail   []byte // the end of the file, as far as it was read
	from   uint64 // where it begins
	memory *[]byte

	// needed is what was needed of the last neededTail bytes of the file.
	needed, neededTail uint64
}

// tailMemory has the memory of tails. The largest are left to the collector.
var tailMemory = sync.Pool{New: func() any { return new([]byte) }}

// readTail reads the last n bytes of f, which has size bytes. Where that fails there
// is no tail: only part of it may be bad, and perhaps one that nobody needs.
func (o *opening) readTail(f vfs.File, size, n uint64) {
	o.size = size
	o.memory = tailMemory.Get().(*[]byte)
	*o.memory = sized(*o.memory, int(n))
	o.cost.add(n)
	if _, err := vfs.ReadFull(f, *o.memory, int64(size-n)); err == nil {
		o.tail, o.from = *o.memory, size-n
	}
}

// end gives the tail's memory back, and returns what was read.
func (o *opening) end() OpenCost {
	if o.memory != nil && cap(*o.memory) <= maxScratch {
		tailMemory.Put(o.memory)
	}
	return o.cost
}

// take copies to the end of buf, which is to hold the bytes of the file from offset
// on, those that the tail has, and returns the part of buf that is to be read.
func (o *opening) take(buf []byte, offset uint64) (rest []byte) {
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

// has returns the stored block at h, whose handle was checked, with its trailer,
// nil unless all of it is in the tail.
func (o *opening) has(h handle) []byte {
	if o.tail == nil || h.offset < o.from {
		return nil
	}
	return o.tail[h.offset-o.from : h.end()-o.from]
}

// need notes that the block at h was needed, so that the next tail has such a one too,
// unless that would mean to read more in vain than is needed. A nil opening notes nothing.
func (o *opening) need(h handle) {
	if o == nil {
		return
	}
	needed, tail := o.needed+h.size+blockTrailerLen, o.size-h.offset
	if tail <= 2*needed+tailRest {
		o.needed, o.neededTail = needed, max(o.neededTail, tail)
	}
}

func (c *OpenCost) add(bytes uint64) {
	c.Reads++
	c.Bytes += bytes
}
