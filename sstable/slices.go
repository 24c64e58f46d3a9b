package sstable

import (
	"github.com/golang/snappy"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// slicedKind is the kind of a Block that a BlockCache holds in slices: its restart
// intervals, each compressed by Snappy for itself, so that a lookup decodes the one
// that it needs. It is never stored in a file.
//
//	+---------+-----+-------------+-----+---------+-----+
//	| n (4)   |     | first key   |     | slice 0 | ... |
//	|         | n x | end (4),    | ... |         |     |
//	|         |     | keyEnd (4)  |     |         |     |
//	+---------+-----+-------------+-----+---------+-----+
//
// end is where the slice ends, keyEnd where the internal key that it begins with
// does; slice 0 has none here, for no search asks for it. Positions count from the
// beginning of all. The bytes are ours, made from a block whose frame was checked;
// what the intervals hold is checked where it is read, as ever.
const slicedKind Compression = 0xff

// appendSliced appends b in slices to dst; ok is false where that cannot be done, because
// a block has one interval, or a restart point at which no key begins.
func appendSliced(dst []byte, b *Block, sc *scratch) (_ []byte, ok bool) {
	n := int(b.numRestarts)
	if b.kind != NoCompression || n < 2 {
		return dst, false
	}
	dst = util.AppendFixed32(dst, uint32(n))
	ends := len(dst)
	dst = append(dst, make([]byte, 8*n)...)
	for i := range n {
		if i > 0 {
			key, ok := b.restartKey(i)
			if !ok {
				return dst, false
			}
			dst = append(dst, key...)
		}
		util.PutFixed32(dst[ends+8*i+4:], uint32(len(dst)))
	}
	for i := range n {
		interval := b.data[b.restart(i):b.restartLimit(i)]
		sc.joined = sized(sc.joined, snappy.MaxEncodedLen(len(interval)))
		dst = append(dst, snappy.Encode(sc.joined, interval)...)
		util.PutFixed32(dst[ends+8*i:], uint32(len(dst)))
	}
	return dst, true
}

// restartKey returns the internal key at restart point i; ok is false where there
// is none.
func (b *Block) restartKey(i int) (key []byte, ok bool) {
	e, ok := readEntry(b.data, b.restart(i), b.entriesEnd)
	if !ok || e.shared != 0 || e.value-e.suffix < base.TrailerLen {
		return nil, false
	}
	return b.data[e.suffix:e.value], true
}

// slices is the number of slices of a sliced block.
func (b *Block) slices() int { return int(util.Fixed32(b.data)) }

// sliceKey returns the internal key that slice i, which is not the first, begins with.
func (b *Block) sliceKey(i int) []byte {
	start, end := util.Fixed32(b.data[8*i:]), util.Fixed32(b.data[8+8*i:])
	return b.data[start:end]
}

// sliceEnd returns where the compressed bytes of slice i end.
func (b *Block) sliceEnd(i int) int { return int(util.Fixed32(b.data[4+8*i:])) }

// sliceStart returns where they begin: behind those of the slice before, or behind the keys.
func (b *Block) sliceStart(i int) int {
	if i == 0 {
		return int(util.Fixed32(b.data[8*b.slices():]))
	}
	return b.sliceEnd(i - 1)
}

// findSlice returns the last slice whose first key is before (userKey, trailer), or
// 0: what Block.searchRestarts does in a whole block.
func (b *Block) findSlice(cmp *base.Comparer, userKey []byte, trailer uint64) int {
	lo, hi := 0, b.slices()-1
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		key := b.sliceKey(mid)
		if c := cmp.Compare(base.UserKey(key), userKey); c < 0 || c == 0 && base.Trailer(key) > trailer {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// decodeSlice decodes slice i of b to the bytes of sc.decoded from at on, in front of
// which there may be other slices, and returns where it ends there.
func (sc *scratch) decodeSlice(b *Block, i, at int) (end int, err error) {
	stored := sc.join(b, b.sliceStart(i), b.sliceEnd(i))
	n, err := snappy.DecodedLen(stored)
	if err == nil {
		sc.reserve(at, at+n+len(oneRestart))
		_, err = snappy.Decode(sc.decoded[at:at+n], stored)
	}
	if err != nil {
		return 0, base.Corruptf(dataPart, -1, "slice %d of its cached form cannot be decoded: %v", i, err)
	}
	return at + n, nil
}

// reserve gives sc.decoded room for n bytes and keeps the first keep of them.
func (sc *scratch) reserve(keep, n int) {
	if n > cap(sc.decoded) {
		sc.decoded = append(make([]byte, 0, n), sc.decoded[:keep]...)
	}
	sc.decoded = sc.decoded[:n]
}

// oneRestart is the end of a block that has one restart point, at its beginning.
var oneRestart = [8]byte{4: 1}

// decodePart makes sc.block of slice i of b: a block of its own.
func (sc *scratch) decodePart(b *Block, i int) (err error) {
	end, err := sc.decodeSlice(b, i, 0)
	if err == nil {
		copy(sc.decoded[end:], oneRestart[:])
		sc.block, err = newBlock(sc.decoded, dataPart)
	}
	return err
}

// decodeAll makes sc.block of all slices of b: the block that they were made from.
func (sc *scratch) decodeAll(b *Block) (err error) {
	n, end := b.slices(), 0
	restarts := make([]byte, 0, 64) // on the stack, mostly
	for i := range n {
		restarts = util.AppendFixed32(restarts, uint32(end))
		if end, err = sc.decodeSlice(b, i, end); err != nil {
			return err
		}
	}
	restarts = util.AppendFixed32(restarts, uint32(n))
	sc.reserve(end, end+len(restarts))
	copy(sc.decoded[end:], restarts)
	sc.block, err = newBlock(sc.decoded, dataPart)
	return err
}

// getInSlices is Reader.getInBlock for a block that is held in slices.
func (r *Reader) getInSlices(b *Block, ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	sc := lk.takeScratch()
	for s := b.findSlice(r.cmp, lk.userKey, lk.trailer); s < b.slices(); s++ {
		if err := sc.decodePart(b, s); err != nil {
			return false, r.located(err, ix, i)
		}
		if done, err = r.searchBlock(&sc.block, nil, ix, i, lk, res); done || err != nil {
			return done, err
		}
	}
	return false, nil
}
