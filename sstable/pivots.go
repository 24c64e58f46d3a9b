package sstable

import (
	"bytes"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// pivots say where in a data block a search begins, for bytewise keys. They have the
// positions of its second to fourth restart points and, as a number, eight bytes of each
// one's key: those after the prefix (skip bytes) that the keys of all restart points have
// in common. They are in the index, so a search waits for them and for the block's slot at
// the same time. Without them it waits for the block's restart array, then for the key at
// one restart point, then for that at the next. They are made when a block is first
// searched. They are unusable for a block with more than four restart points, with 64 KiB
// of entries or more, or whose keys there do not ascend.
//
// Bits 0 to 47 of shape are the three positions, 48 to 55 skip, 56 to 57 the number of
// positions. shape is written last: a reader that sees pivotsMade sees the prefixes.
type pivots struct {
	shape    atomic.Uint64
	prefixes [maxPivots]atomic.Uint64 // the greatest number where there is no restart point
}

const (
	maxPivots    = 3
	pivotsMade   = 1 << 63
	pivotsUsable = 1 << 62
)

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
		skip = min(base.SharedPrefixLen(keys[0], keys[n-1]), math.MaxUint8)
	}
	for i := range maxPivots {
		prefix := uint64(math.MaxUint64)
		if i+1 < n {
			prefix = util.Prefix64(keys[i+1], skip)
			shape |= uint64(b.restart(i+1)) << (16 * i)
		}
		pv.prefixes[i].Store(prefix)
	}
	pv.shape.Store(shape | pivotsUsable | uint64(skip)<<48 | uint64(n-1)<<56)
}

// touch loads the cache line of pv.
func (pv *pivots) touch() byte { return byte(pv.shape.Load()) }

// start is where a search in a block begins: at byte p, that is restart point r, whose
// interval ends at limit. If the key there begins with the target's first skip bytes, it
// is the last restart point whose key is before the target.
type start struct{ r, p, limit, skip int }

// find returns where to begin the search for a user key in b, a whole block. ok is false
// if the pivots do not determine it.
func (pv *pivots) find(b *Block, userKey []byte) (s start, ok bool) {
	shape := pv.shape.Load()
	s.skip = int(shape >> 48 & 0xff)
	if shape&pivotsUsable == 0 || len(userKey) < s.skip {
		return s, false
	}
	target := util.Prefix64(userKey, s.skip)
	for i := range pv.prefixes {
		// Adding the borrow, the processor has no branch to predict.
		_, before := bits.Sub64(pv.prefixes[i].Load(), target, 0)
		s.r += int(before)
	}
	s.limit = b.entriesEnd
	if places := int(shape >> 56 & 3); s.r < places {
		if pv.prefixes[s.r].Load() == target {
			return s, false
		}
		s.limit = int(shape >> (16 * s.r) & 0xffff)
	}
	if s.r > 0 {
		s.p = int(shape >> (16 * (s.r - 1)) & 0xffff)
	}
	return s, s.p < s.limit && s.limit <= b.entriesEnd
}

// holds reports whether the key at the start begins with the target's first skip bytes,
// so that the result of find is correct.
func (s *start) holds(b *Block, userKey []byte) bool {
	e, ok := readEntry(b.data, s.p, b.entriesEnd)
	end := e.suffix + s.skip
	return ok && e.shared == 0 && end <= e.value-base.TrailerLen &&
		string(b.data[e.suffix:end]) == string(userKey[:s.skip])
}
