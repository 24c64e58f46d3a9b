package sstable

import "sync"

// maxScratch bounds the stored blocks that go through a scratch, and the memory
// of a scratch at rest, in bytes. Larger blocks are rare, and their copying would
// be dearer than their allocation.
const maxScratch = 256 << 10

// scratch is memory for one data block at a time, stored and decompressed. Each
// belongs to one goroutine; what lies in it holds until its next use.
type scratch struct {
	stored  []byte
	decoded []byte
	joined  []byte // compressed: the pieces of a block in one, or a slice being made
	sliced  []byte // a block being put in slices
	block   Block  // the last block given out, in decoded, in stored or elsewhere
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// rest puts sc back for others.
func (sc *scratch) rest() {
	sc.block = Block{} // the pool must not keep a cached block alive
	if cap(sc.stored) > maxScratch {
		sc.stored = nil
	}
	if cap(sc.decoded) > maxScratch {
		sc.decoded = nil
	}
	if max(cap(sc.joined), cap(sc.sliced)) > maxScratch {
		sc.joined, sc.sliced = nil, nil
	}
	scratches.Put(sc)
}

// decompress returns b, which is compressed, as a block that can be read.
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

// join returns the stored bytes [start, end) of b, in one piece. They are near then: a
// decoder waits for each line in turn.
func (sc *scratch) join(b *Block, start, end int) []byte {
	n := len(b.data)
	switch {
	case end <= n:
		touch(b.data[start:end])
		return b.data[start:end]
	case start >= n:
		stored := restBytes(b.rest)[start-n : end-n]
		touch(stored)
		return stored
	}
	sc.joined = append(append(sc.joined[:0], b.data[start:]...), b.rest[:end-n]...)
	return sc.joined
}
