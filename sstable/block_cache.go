package sstable

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/cache"
	"github.com/sievedb/sievedb/internal/hugepages"
)

// BlockCache keeps data blocks of any number of tables in memory, within a
// budget in bytes. Any goroutine may use it.
//
// While there is room, blocks are kept decompressed. Once the cache is full, a
// block that comes in is kept as it is stored if that saves room enough: a
// lookup then decompresses it into memory of its own, which costs less than half
// of what a read from the page cache does, and far more blocks have their place.
// What is used a few times, or is going to be, as far as one can tell, is compressed anew
// in slices, of which a lookup decompresses the one that it needs. What is used again and
// again is put back decompressed, at the expense of what is not, see cache.Cache.Hot. A cache that could hold all blocks decompressed
// thus does, one that could not has the hot ones so, and which are hot and how
// much room they are worth follows from the use that is made of the others.
type BlockCache struct {
	cache *cache.Cache[Block]
	// Of the blocks that were loaded and have not left.
	compressed, compressedBytes atomic.Int64
}

// NewBlockCache makes a cache that holds at most capacity bytes; none if that is
// not above 0.
func NewBlockCache(capacity int64) *BlockCache {
	c := new(BlockCache)
	c.cache = cache.NewWithForms(capacity, func(b *Block) bool { return b.packable }, func(b *Block) { c.count(b, -1) })
	return c
}

// Close evicts all blocks, and keeps none from then on.
func (c *BlockCache) Close() { c.cache.Close() }

// BlockCacheMetrics is what a BlockCache holds and did. Compressed and
// CompressedBytes are those of Count and Size that are kept compressed; they are
// read apart from the others, so they may be ahead or behind by what comes and goes.
type BlockCacheMetrics struct {
	cache.Metrics
	Compressed, CompressedBytes int64
}

// Metrics returns the present counts.
func (c *BlockCache) Metrics() BlockCacheMetrics {
	return BlockCacheMetrics{c.cache.Metrics(), c.compressed.Load(), c.compressedBytes.Load()}
}

// count adds n to the number of compressed blocks, and their bytes, if b is one.
func (c *BlockCache) count(b *Block, n int64) {
	if b.kind != NoCompression {
		c.compressed.Add(n)
		c.compressedBytes.Add(n * b.memBytes())
	}
}

// taken is for each block that is made for the cache.
func (c *BlockCache) taken(b *Block) {
	c.count(b, 1)
	hugepages.Note(b.data)
	hugepages.Note(restBytes(b.rest))
}

// load returns the block of slot: what is kept there by now or another goroutine
// was just loading, or else what read returns, raw as kind and decompressed in
// sc. loaded tells which. What is kept is never sc's memory; what is returned may be.
// What the cache passes by is not copied at all.
func (c *BlockCache) load(slot *cache.Slot[Block], sc *scratch, bytewise bool, read func() (raw []byte, kind Compression, err error)) (b *Block, loaded bool, err error) {
	b, err = c.cache.GetOrLoad(slot, func() (Block, int64, error) {
		raw, kind, err := read()
		if err != nil {
			return Block{}, 0, err
		}
		loaded = true
		if c.cache.Pass(slot, int64(len(raw))) {
			return Block{}, cache.Passed, nil
		}
		kept := c.form(slot, raw, kind, sc, bytewise)
		c.taken(&kept)
		return kept, kept.memBytes(), nil
	})
	switch {
	case err != nil:
		return nil, loaded, err
	case loaded:
		return &sc.block, true, nil
	case b.kind != NoCompression:
		b, err = sc.decompress(b)
	}
	return b, false, err
}

// form returns sc.block, stored as raw, in the form in which it is to be kept.
func (c *BlockCache) form(slot *cache.Slot[Block], raw []byte, kind Compression, sc *scratch, bytewise bool) Block {
	b := sc.block
	b.packable = worthPacking(kind, len(raw), len(b.data))
	size := int64(sizeClass(len(b.data))) + cache.EntrySize[Block]() // of its own copy; sc may have more memory
	switch {
	case b.packable && !c.cache.HasRoom(size):
		stored := Block{kind: kind, data: raw}
		if bytewise && c.cache.Busy(slot) {
			stored = c.sliced(&stored, &sc.block, sc)
		}
		if stored.kind == slicedKind {
			return stored
		}
		return fitted(raw, kind)
	case len(b.data) > maxScratch: // sc would not keep its memory anyway
		sc.stored, sc.decoded = nil, nil
	default:
		b.data = owned(b.data)
	}
	return b
}

// worthPacking says whether a block of so many bytes, decoded, is better kept as
// it is stored where room is short. Only Snappy is decoded in less time than the
// system needs for a read of what it has in memory. With keys drawn alike,
// a miss at five times the price of decoding, and what was saved filled with other
// blocks, less than a fifth saved would not pay for the decoding: a quarter is asked.
func worthPacking(kind Compression, stored, decoded int) bool {
	return kind == Snappy && stored <= decoded-decoded/4
}

// unpack returns b, which slot holds compressed, in sc's memory, and keeps it
// from now on decompressed if it is hot, and in slices if it is at least warm and its
// keys are bytewise.
func (c *BlockCache) unpack(slot *cache.Slot[Block], b *Block, sc *scratch, bytewise bool) (*Block, error) {
	plain, err := sc.decompress(b)
	if err != nil {
		return nil, err
	}
	switch {
	case c.cache.Hot(slot):
		kept := *plain
		kept.data, kept.packable = owned(kept.data), true
		c.taken(&kept)
		c.cache.Replace(slot, b, kept, kept.memBytes())
	case bytewise && b.kind != slicedKind && !b.whole && slot.Warm():
		kept := c.sliced(b, plain, sc)
		c.taken(&kept)
		c.cache.Replace(slot, b, kept, kept.memBytes())
	}
	return plain, nil
}

// sliced returns b, which is plain decompressed, in slices. If these would not save room
// enough, it returns b again, marked so that nobody tries once more.
func (c *BlockCache) sliced(b, plain *Block, sc *scratch) Block {
	data, ok := appendSliced(sc.sliced[:0], plain, sc)
	sc.sliced = data
	if ok && worthPacking(Snappy, len(data), len(plain.data)) {
		kept := fitted(data, slicedKind)
		kept.entriesEnd = plain.entriesEnd
		return kept
	}
	kept := *b
	kept.whole = true
	return kept
}

// fitted returns a block compressed as kind with a copy of data, in two pieces where
// one would leave memory unused: the sizes that the allocator has are up to an
// eighth apart, so that of blocks of one length all may waste as much.
func fitted(data []byte, kind Compression) Block {
	const negligible = 64 // bytes
	classes := sizeClasses()
	i, _ := slices.BinarySearch(classes, len(data))
	if i == 0 || i == len(classes) || classes[i]-len(data) <= negligible {
		return Block{kind: kind, data: owned(data)}
	}
	n := classes[i-1]
	return Block{kind: kind, data: owned(data[:n]), rest: string(data[n:])}
}

// sizeClass is the memory that an allocation of n bytes takes, if it is a small one.
func sizeClass(n int) int {
	classes := sizeClasses()
	i, _ := slices.BinarySearch(classes, n)
	if n == 0 || i == len(classes) {
		return n
	}
	return classes[i]
}

// restBytes returns the bytes of a block's second piece, which nobody may write to.
func restBytes(rest string) []byte { return unsafe.Slice(unsafe.StringData(rest), len(rest)) }

// sizeClasses returns the sizes that small allocations are rounded up to.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	for n := 1; n <= 32<<10; {
		class := cap(owned(make([]byte, n)))
		classes, n = append(classes, class), class+1
	}
	return classes
})

// owned returns a copy of data in memory of its own, as little as the allocator has.
func owned(data []byte) []byte { return append([]byte(nil), data...) }
