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
	block   Block // the last block given out, in decoded, in stored or elsewhere
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
	scratches.Put(sc)
}

// decompress returns b, which is compressed, as a block that can be read.
func (sc *scratch) decompress(b *Block) (*Block, error) {
	touch(b.data) // a decoder waits for each line in turn
	data, err := decompress(b.kind, b.data, sc.decoded, dataPart)
	if err != nil {
		return nil, err
	}
	sc.decoded = data
	sc.block, err = newBlock(data, dataPart)
	return &sc.block, err
}
