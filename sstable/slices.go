package sstable

import (
	"bytes"
	"math"

	"github.com/golang/snappy"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/util"
)

// slicedKind is the kind of a Block that a BlockCache holds in slices: its restart
// intervals, each compressed separately by Snappy, so that a lookup decodes only the one
// that it needs. It is never stored in a file, and only used for bytewise keys.
//
//	+-------+----------+------------------+--------------+---------+-----+
//	| n (1) | skip (1) | (n-1) prefix (8) | n end (4)    | slice 0 | ... |
//	+-------+----------+------------------+--------------+---------+-----+
//
// The first user keys of all slices have their first skip bytes in common. A prefix is, for each slice except the
// first, the next eight bytes of that key as a number; see util.Prefix64. end is where the slice ends. Positions count
// from the beginning of the sliced block. Its header can be trusted, since it was made from a block whose frame was
// checked. The entries of an interval are checked when they are read.
//
// A lookup in a sliced block of 4 KiB takes 0.7 µs instead of 1.3, and 0.2 instead of 2.5 in a
// list of words. Whole keys instead of prefixes would use 3 % of the cache, and tables that are
// written in slices 2 to 20 % more of the disk.
const slicedKind Compression = 0xff

// appendSliced appends b in slices to dst. ok is false if that is impossible because b has one interval or more than
// 255, a restart point at which no whole key begins, or restart keys that do not ascend.
func appendSliced(dst []byte, b *Block, sc *scratch) (_ []byte, ok bool) {
	n := int(b.numRestarts)
	if b.kind != NoCompression || n < 2 || n > math.MaxUint8 || !b.restartKeysRise() {
		return dst, false
	}
	skip := min(base.SharedPrefixLen(b.restartUserKey(0), b.restartUserKey(n-1)), math.MaxUint8)
	dst = append(dst, byte(n), byte(skip))
	for i := 1; i < n; i++ {
		dst = util.AppendFixed64(dst, util.Prefix64(b.restartUserKey(i), skip))
	}
	ends := len(dst)
	dst = append(dst, make([]byte, 4*n)...)
	for i := range n {
		interval := b.data[b.restart(i):b.restartLimit(i)]
		sc.joined = codec.Sized(sc.joined, snappy.MaxEncodedLen(len(interval)))
		dst = append(dst, snappy.Encode(sc.joined, interval)...)
		util.PutFixed32(dst[ends+4*i:], uint32(len(dst)))
	}
	return dst, true
}

// restartKeysRise reports whether a whole key begins at each restart point, and their user
// keys ascend bytewise, possibly with equal ones.
func (b *Block) restartKeysRise() bool {
	var prev []byte
	for i := range int(b.numRestarts) {
		key, ok := b.restartKey(i)
		if !ok || i > 0 && bytes.Compare(prev, base.UserKey(key)) > 0 {
			return false
		}
		prev = base.UserKey(key)
	}
	return true
}

// restartUserKey returns the user key at restart point i, where a whole key must begin.
func (b *Block) restartUserKey(i int) []byte {
	key, _ := b.restartKey(i)
	return base.UserKey(key)
}

// restartKey returns the internal key at restart point i; ok is false if no whole key begins there.
func (b *Block) restartKey(i int) (key []byte, ok bool) {
	e, ok := readEntry(b.data, b.restart(i), b.entriesEnd)
	if !ok || e.shared != 0 || e.value-e.suffix < base.TrailerLen {
		return nil, false
	}
	return b.data[e.suffix:e.value], true
}

// slices returns the number of slices of a sliced block.
func (b *Block) slices() int { return int(b.data[0]) }

// slicesSkip returns how many bytes the first user keys of all slices have in common.
func (b *Block) slicesSkip() int { return int(b.data[1]) }

// slicePrefix returns the prefix of the first key of slice i, which must not be the first.
func (b *Block) slicePrefix(i int) uint64 { return util.Fixed64(b.data[2+8*(i-1):]) }

// sliceEnd returns where the compressed bytes of slice i end.
func (b *Block) sliceEnd(i int) int {
	return int(util.Fixed32(b.data[2+8*(b.slices()-1)+4*i:]))
}

// sliceStart returns where they begin: after those of the previous slice, or after the header.
func (b *Block) sliceStart(i int) int {
	if i == 0 {
		return 2 + 8*(b.slices()-1) + 4*b.slices()
	}
	return b.sliceEnd(i - 1)
}

// findSlice returns the range from first to last of slices that has the last slice that
// begins before userKey. All slices of the range after first begin with userKey's prefix. The
// result is correct if userKey begins with the bytes that the slices have in common: see holds.
func (b *Block) findSlice(userKey []byte) (first, last int, ok bool) {
	n, skip := b.slices(), b.slicesSkip()
	if len(userKey) < skip {
		return 0, n - 1, false
	}
	target := util.Prefix64(userKey, skip)
	for first+1 < n && b.slicePrefix(first+1) < target {
		first++
	}
	for last = first; last+1 < n && b.slicePrefix(last+1) == target; {
		last++
	}
	return first, last, true
}

// holds reports whether the result of findSlice for userKey is correct. slice is any slice of b.
func (b *Block) holds(slice *Block, userKey []byte) bool {
	return (&start{skip: 8 * b.slicesSkip()}).holds(slice, userKey)
}

// decodeSlice decodes slice i of b to sc.decoded[at:], keeps the bytes before at, and
// returns where the slice ends there.
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

// reserve makes sc.decoded n bytes long and keeps the first keep of them.
func (sc *scratch) reserve(keep, n int) {
	if n > cap(sc.decoded) {
		sc.decoded = append(make([]byte, 0, n), sc.decoded[:keep]...)
	}
	sc.decoded = sc.decoded[:n]
}

// oneRestart is the end of a block that has one restart point, at its beginning.
var oneRestart = [8]byte{4: 1}

// decodePart decodes slice i of b and makes it a separate block, sc.block.
func (sc *scratch) decodePart(b *Block, i int) (err error) {
	end, err := sc.decodeSlice(b, i, 0)
	if err == nil {
		copy(sc.decoded[end:], oneRestart[:])
		sc.block, err = newBlock(sc.decoded, dataPart)
	}
	return err
}

// decodeAll decodes all slices of b and makes them sc.block, as it was before slicing.
func (sc *scratch) decodeAll(b *Block) (err error) {
	n, end := b.slices(), 0
	restarts := make([]byte, 0, 64) // usually on the stack
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

// getInSlices is Reader.getInBlock for a block in slices.
func (r *Reader) getInSlices(b *Block, ix *index, i int, lk *Lookup, res *Result) (done bool, err error) {
	sc := lk.takeScratch()
	s, _, ok := b.findSlice(lk.userKey)
	for ; ok && s < b.slices(); s++ {
		if err := sc.decodePart(b, s); err != nil {
			return false, r.located(err, ix, i)
		}
		if ok = b.holds(&sc.block, lk.userKey); ok {
			if done, err = r.searchBlock(&sc.block, nil, ix, i, lk, res); done || err != nil {
				return done, err
			}
		}
	}
	if ok {
		return false, nil
	}
	if err := sc.decodeAll(b); err != nil {
		return false, r.located(err, ix, i)
	}
	return r.searchBlock(&sc.block, nil, ix, i, lk, res)
}
