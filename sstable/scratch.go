package sstable

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/base/hugepages"
)

// maxScratch bounds the blocks that the cache copies from a scratch, and the memory of
// an idle scratch, in bytes. Copying a larger block would cost more than allocating it.
const maxScratch = codec.MaxScratch

// scratch is memory for one data block at a time, stored and decompressed. Each
// belongs to one goroutine. Its contents are valid until its next use.
type scratch struct {
	stored  []byte
	decoded []byte
	joined  []byte // compressed: the joined pieces of a block, or a slice being made; or a block of loadKey
	sliced  []byte // a block being divided into slices
	block   Block  // the last block returned, in decoded, in stored or elsewhere
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns sc to the pool. It keeps its large buffers apart: they are for those who ask for so much, since an
// iterator holds the scratch that it takes until it is closed.
func (sc *scratch) release() {
	sc.block = Block{} // the pool must not keep a cached block alive
	sc.stored, sc.decoded = codec.KeepLarge(sc.stored), codec.KeepLarge(sc.decoded)
	if max(cap(sc.joined), cap(sc.sliced)) > maxScratch {
		sc.joined, sc.sliced = nil, nil
	}
	scratches.Put(sc)
}

// storedBuf is memory into which a block is read before it is decompressed. The iterators share a few of them: a
// program that holds thousands of iterators, each with a block of each run, needs only the decompressed form.
type storedBuf struct{ b []byte }

var storedBufs = sync.Pool{New: func() any { return new(storedBuf) }}

// mostLent bounds a storedBuf, in bytes. Larger memory is that of read-ahead, which an iterator keeps.
const mostLent = 16 << 10

// borrowStored gives sc a shared buffer for sc.stored, unless it has one.
func (sc *scratch) borrowStored() *storedBuf {
	lent := storedBufs.Get().(*storedBuf)
	if sc.stored == nil {
		sc.stored, lent.b = lent.b, nil
	}
	return lent
}

// returnStored takes back what borrowStored lent, unless sc.block is in it.
func (sc *scratch) returnStored(lent *storedBuf) {
	inUse := len(sc.block.data) > 0 && len(sc.stored) > 0 && &sc.block.data[0] == &sc.stored[0]
	if !inUse && cap(sc.stored) <= mostLent {
		if lent.b == nil {
			lent.b = sc.stored
		}
		sc.stored = nil
	}
	storedBufs.Put(lent)
}

// open checks and decompresses a data block that is stored with its trailer, and makes it sc.block. It returns the block
// as it is stored.
func (sc *scratch) open(stored []byte) (raw []byte, kind Compression, err error) {
	data, kind, err := openBlock(stored, sc.decoded, dataPart)
	if err == nil {
		if kind != NoCompression {
			sc.decoded = data
		}
		sc.block, err = newBlock(data, dataPart)
	}
	return stored[:len(stored)-blockTrailerLen], kind, err
}

// decompress returns the decompressed form of b, which is compressed.
func (sc *scratch) decompress(b *Block) (*Block, error) {
	if b.kind == slicedKind {
		return &sc.block, sc.decodeAll(b)
	}
	data, err := decompress(b.kind, sc.join(b, 0, b.stored()), sc.decoded, dataPart)
	if err != nil {
		return nil, err
	}
	sc.decoded = data
	sc.block, err = newBlock(data, dataPart)
	return &sc.block, err
}

// join returns the stored bytes [start, end) of b in one piece. It loads them into the
// processor's cache, since a decoder would wait for each cache line in turn.
func (sc *scratch) join(b *Block, start, end int) []byte {
	n := len(b.data)
	switch {
	case end <= n:
		hugepages.Touch(b.data[start:end])
		return b.data[start:end]
	case start >= n:
		stored := restBytes(b.rest)[start-n : end-n]
		hugepages.Touch(stored)
		return stored
	}
	sc.joined = append(append(sc.joined[:0], b.data[start:]...), b.rest[:end-n]...)
	return sc.joined
}
