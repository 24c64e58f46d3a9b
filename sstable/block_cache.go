package sstable

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/internal/limit/cache"
)

// BlockCache keeps data blocks of any number of tables in memory, within a budget in bytes. Any goroutine may use it.
//
// While there is room, blocks are kept decompressed. Once the cache is full, a new block is kept as it is stored in the
// file if that saves enough memory. A lookup then decompresses it into its own memory, which costs less than half of a
// read from the page cache, and many more blocks fit. A block that is used a few times, or is likely to be, is
// recompressed in slices, of which a lookup decompresses only the one that it needs. A block that is used often is kept
// decompressed at the expense of others, see cache.Cache.Hot. So a cache that can hold all blocks decompressed does
// that, and a smaller one holds the hot ones decompressed.
type BlockCache struct {
	cache *cache.Cache[Block]
	// Of the blocks that are in the cache.
	compressed, compressedBytes atomic.Int64
}

// NewBlockCache returns a cache that holds at most capacity bytes. If capacity is not above 0, it holds nothing.
func NewBlockCache(capacity int64) *BlockCache {
	c := new(BlockCache)
	c.cache = cache.NewWithForms(capacity, packable, c.discount)
	return c
}

// NewBlockCacheInPool returns a cache that holds at most capacity bytes, and has a part of a budget
// that several caches share, until it is closed. A nil p is NewBlockCache.
func NewBlockCacheInPool(p *cache.Pool, capacity int64) *BlockCache {
	if p == nil {
		return NewBlockCache(capacity)
	}
	c := new(BlockCache)
	c.cache = cache.NewInPool(p, capacity, packable, c.discount)
	return c
}

func packable(b *Block) bool { return b.packable }

// discount is called for each block that leaves the cache.
func (c *BlockCache) discount(b *Block) { c.count(b, -1) }

// SetCapacity changes the number of bytes that the cache holds at most, and evicts blocks until
// the rest fits. If it is not above 0, the cache holds nothing.
func (c *BlockCache) SetCapacity(capacity int64) { c.cache.SetCapacity(capacity) }

// Charge takes bytes of the capacity for memory that is used elsewhere, or returns them if below 0.
func (c *BlockCache) Charge(bytes int64) { c.cache.Charge(bytes) }

// Close evicts all blocks. The cache keeps no blocks after that.
func (c *BlockCache) Close() { c.cache.Close() }

// BlockCacheMetrics has the contents and counters of a BlockCache. Compressed and
// CompressedBytes are the parts of Count and Size that are kept compressed. They are
// not read at the same instant as the others, so they may differ by concurrent changes.
type BlockCacheMetrics struct {
	cache.Metrics
	Compressed, CompressedBytes int64
}

// Metrics returns the current counts.
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

// register counts a block that is made for the cache, and its memory as memory that is read at random.
func (c *BlockCache) register(b *Block) {
	c.count(b, 1)
	hugepages.Count(b.data)
	hugepages.Count(restBytes(b.rest))
}

// load returns the block of slot. If it is in the cache by now, or another goroutine is loading it, load returns that.
// Otherwise it calls read, which returns the block compressed as kind and leaves it decompressed in sc, and loaded is
// true. The cache never keeps sc's memory, but load may return it. A block not admitted is not copied.
func (c *BlockCache) load(slot *cache.Slot[Block], sc *scratch, bytewise bool,
	read func() (raw []byte, kind Compression, err error)) (b *Block, loaded bool, err error) {
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
		c.register(&kept)
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

// form returns sc.block, which is stored as raw, in the form in which to keep it.
func (c *BlockCache) form(slot *cache.Slot[Block], raw []byte, kind Compression, sc *scratch, bytewise bool) Block {
	b := sc.block
	b.packable = worthPacking(kind, len(raw), len(b.data))
	size := int64(sizeClass(len(b.data))) + cache.EntrySize[Block]() // of a copy; sc may have more memory
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
	case len(b.data) > maxScratch && cap(b.data)-len(b.data) <= len(b.data)/8:
		if kind == NoCompression { // the block is there
			sc.stored = nil
		} else {
			sc.decoded = nil
		}
	default:
		b.data = owned(b.data)
	}
	return b
}

// worthPacking reports whether a full cache should keep a block of these sizes as it is stored.
// Only Snappy decodes faster than the system reads a file from its page cache. With uniformly
// chosen keys, a miss five times as expensive as decoding, and other blocks in the memory saved,
// saving less than a fifth would not pay for the decoding. The rule requires a quarter.
func worthPacking(kind Compression, stored, decoded int) bool {
	return kind == Snappy && stored <= decoded-decoded/4
}

// unpack decompresses b, which slot holds compressed, into sc's memory. From then on the cache
// keeps the block decompressed if it is hot, or in slices if it is warm and its keys are bytewise.
func (c *BlockCache) unpack(slot *cache.Slot[Block], b *Block, sc *scratch, bytewise bool) (*Block, error) {
	plain, err := sc.decompress(b)
	if err != nil {
		return nil, err
	}
	switch {
	case c.cache.Hot(slot):
		kept := *plain
		kept.data, kept.packable = owned(kept.data), true
		c.register(&kept)
		c.cache.Replace(slot, b, kept, kept.memBytes())
	case bytewise && b.kind != slicedKind && !b.whole && slot.Warm():
		kept := c.sliced(b, plain, sc)
		c.register(&kept)
		c.cache.Replace(slot, b, kept, kept.memBytes())
	}
	return plain, nil
}

// sliced returns b, whose decompressed form is plain, in slices. If these would not save
// enough memory, it returns b, marked as whole so that slicing is not tried again.
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

// fitted returns a block compressed as kind with a copy of data. The copy is in two pieces if one would waste memory:
// the allocator's size classes are up to an eighth apart, so all blocks of a certain length could waste that much. With
// a cache of 64 MiB for 116 MB of blocks of 2,357 bytes, which used 2,688, misses went from 12.9 to 2.3 %.
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

// sizeClass returns the memory that an allocation of n bytes uses, if it is a small one.
func sizeClass(n int) int {
	classes := sizeClasses()
	i, _ := slices.BinarySearch(classes, n)
	if n == 0 || i == len(classes) {
		return n
	}
	return classes[i]
}

// restBytes returns the bytes of a block's second piece, which must not be modified.
func restBytes(rest string) []byte { return unsafe.Slice(unsafe.StringData(rest), len(rest)) }

// sizeClasses returns the sizes to which small allocations are rounded up.
var sizeClasses = sync.OnceValue(func() (classes []int) {
	for n := 1; n <= 32<<10; {
		class := cap(owned(make([]byte, n)))
		classes, n = append(classes, class), class+1
	}
	return classes
})

// owned returns a copy of data in the smallest allocation that holds it.
func owned(data []byte) []byte { return append([]byte(nil), data...) }
