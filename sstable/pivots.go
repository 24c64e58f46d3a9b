package sstable

import (
	"bytes"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// pivots say where in a data block a search begins, for bytewise keys. They have the positions of its second to fourth
// restart points and, as a number, a window of each one's key: 21 bits after those (skip) that the keys of all restart
// points have in common. Two of these are in the window too, so that keys after the last restart point rarely differ
// before it. Pivots are in the index, so a search waits for them and for the block's slot at the same time. Without
// them it waits for the block's restart array, then for the key at one restart point, then for that at the next. They
// are made when a block is first searched. They are unusable for a block with more than four restart points, with 64
// KiB of entries or more, or whose keys there do not ascend.
//
// Bits 0 to 47 of shape are the three positions, 48 to 58 skip in bits, 60 to 61 the number
// of positions. shape is written last: a reader that sees pivotsMade sees the windows.
type pivots struct {
	shape   atomic.Uint64
	windows atomic.Uint64 // ones where there is no restart point
}

const (
	maxPivots    = 3
	pivotsMade   = 1 << 63
	pivotsUsable = 1 << 62

	windowBits = 64 / maxPivots
	noWindow   = 1<<windowBits - 1
	windowLead = 2
	maxSkip    = 1<<11 - 1 // bits
)

// window returns the bits of a user key after the first skip ones. The key has skip/8 bytes or more.
func window(userKey []byte, skip int) uint64 {
	return util.Prefix64(userKey, skip/8) << (skip % 8) >> (64 - windowBits)
}

// sharedBits returns how many bits two user keys begin with that are the same, at most maxSkip. As everywhere here,
// zeros follow the end of a key.
func sharedBits(a, b []byte) int {
	n := min(base.SharedPrefixLen(a, b), maxSkip/8)
	return min(8*n+bits.LeadingZeros64(util.Prefix64(a, n)^util.Prefix64(b, n)), 8*n+7, maxSkip)
}

// make sets the pivots of b, a whole block. Several goroutines may call it concurrently:
// each writes the same values.
func (pv *pivots) make(b *Block) {
	shape := uint64(pivotsMade)
	n := int(b.numRestarts)
	if n < 1 || n > 1+maxPivots || b.entriesEnd > math.MaxUint16 {
		pv.shape.Store(shape)
		return
	}
	var keys [1 + maxPivots][]byte
	for i := range n {
		key, ok := b.restartKey(i)
		if ok {
			keys[i] = base.UserKey(key)
		}
		if !ok || i > 0 && bytes.Compare(keys[i-1], keys[i]) > 0 {
			pv.shape.Store(shape)
			return
		}
	}
	skip := 0
	if n > 1 {
		skip = max(sharedBits(keys[0], keys[n-1])-windowLead, 0)
	}
	windows := uint64(0)
	for i := range maxPivots {
		w := uint64(noWindow)
		if i+1 < n {
			w = window(keys[i+1], skip)
			shape |= uint64(b.restart(i+1)) << (16 * i)
		}
		windows |= w << (windowBits * i)
	}
	pv.windows.Store(windows)
	pv.shape.Store(shape | pivotsUsable | uint64(skip)<<48 | uint64(n-1)<<60)
}

// touch loads the cache line of pv.
func (pv *pivots) touch() byte { return byte(pv.shape.Load()) }

// start is where a search in a block begins: at byte p, that is restart point r, whose interval ends at limit. If the
// key there begins with the target's first skip bits, it is the last restart point whose key is before the target.
type start struct{ r, p, limit, skip int } // skip is in bits

// find returns where to begin the search for a user key in b, a whole block. ok is false
// if the pivots do not determine it.
func (pv *pivots) find(b *Block, userKey []byte) (s start, ok bool) {
	shape := pv.shape.Load()
	s.skip = int(shape >> 48 & maxSkip)
	if shape&pivotsUsable == 0 || len(userKey) < s.skip/8 {
		return s, false
	}
	target, windows := window(userKey, s.skip), pv.windows.Load()
	for i := range maxPivots {
		// Adding the borrow, the processor has no branch to predict.
		_, before := bits.Sub64(windows>>(windowBits*i)&noWindow, target, 0)
		s.r += int(before)
	}
	s.limit = b.entriesEnd
	if places := int(shape >> 60 & 3); s.r < places {
		if windows>>(windowBits*s.r)&noWindow == target {
			return s, false
		}
		s.limit = int(shape >> (16 * s.r) & 0xffff)
	}
	if s.r > 0 {
		s.p = int(shape >> (16 * (s.r - 1)) & 0xffff)
	}
	return s, s.p < s.limit && s.limit <= b.entriesEnd
}

// holds reports whether the key at the start begins with the target's first skip bits,
// so that the result of find is correct.
func (s *start) holds(b *Block, userKey []byte) bool {
	e, ok := readEntry(b.data, s.p, b.entriesEnd)
	n := s.skip / 8
	if !ok || e.shared != 0 || e.suffix+n > e.value-base.TrailerLen {
		return false
	}
	key := b.data[e.suffix : e.value-base.TrailerLen]
	return string(key[:n]) == string(userKey[:n]) && (byteAt(key, n)^byteAt(userKey, n))>>(8-s.skip%8) == 0
}

// byteAt returns key[i], or 0 after the end of the key.
func byteAt(key []byte, i int) byte {
	if i < len(key) {
		return key[i]
	}
	return 0
}
