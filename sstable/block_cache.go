package sstable

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/cache"
)

// BlockCache keeps data blocks of any number of tables in memory, within a
// budget in bytes. Any goroutine may use it.
//
// While there is room, blocks are kept decompressed. Once the cache is full, a
// block that comes in is kept as it is stored if that saves room enough: a
// lookup then decompresses it into memory of its own, which costs less than half
// of what a read from the page cache does, and far more blocks have their place.
// What is used again and again is put back decompressed, at the expense of what
// is not, see cache.Slot.Hot. A cache that could hold all blocks decompressed
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

// load returns the block of slot: what is kept there by now or another goroutine
// was just loading, or else what read returns, raw as kind and decompressed in
// sc. loaded tells which. What is kept is never sc's memory; what is returned may be.
// What the cache passes by is not copied at all.
func (c *BlockCache) load(slot *cache.Slot[Block], sc *scratch, read func() (raw []byte, kind Compression, err error)) (b *Block, loaded bool, err error) {
	b, err = c.cache.GetOrLoad(slot, func() (Block, int64, error) {
		raw, kind, err := read()
		if err != nil {
			return Block{}, 0, err
		}
		loaded = true
		if c.cache.Pass(slot, int64(len(raw))) {
			return Block{}, cache.Passed, nil
		}
		kept := c.form(raw, kind, sc)
		c.count(&kept, 1)
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
func (c *BlockCache) form(raw []byte, kind Compression, sc *scratch) Block {
	b := sc.block
	b.packable = worthPacking(kind, len(raw), len(b.data))
	switch {
	case b.packable && !c.cache.HasRoom(b.memBytes()):
		return Block{data: owned(raw), kind: kind}
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
// decompressed from now on if it is hot.
func (c *BlockCache) unpack(slot *cache.Slot[Block], b *Block, sc *scratch) (*Block, error) {
	plain, err := sc.decompress(b)
	if err == nil && slot.Hot() {
		kept := *plain
		kept.data, kept.packable = owned(kept.data), true
		c.cache.Replace(slot, b, kept, kept.memBytes())
	}
	return plain, err
}

// owned returns a copy of data in memory of its own, as little as the allocator has.
func owned(data []byte) []byte { return append([]byte(nil), data...) }
