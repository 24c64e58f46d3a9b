package sstable

import (
	"bytes"
	"sync"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/hugepages"
	"github.com/sievedb/sievedb/util"
)

// searchRestarts returns the last restart point whose key is before the target (userKey, trailer),
// or 0 if there is none. Keys are stored whole there, so none is rebuilt. If the search meets a
// malformed entry, bad is its position; otherwise it is -1. The block must not be empty.
func (b *Block) searchRestarts(cmp *base.Comparer, bytewise bool, userKey []byte, trailer uint64) (r, bad int) {
	lo, hi := 0, int(b.numRestarts)-1 // the answer is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		p := b.restart(mid)
		e, ok := readEntry(b.data, p, b.entriesEnd)
		n := e.value - e.suffix - base.TrailerLen
		if !ok || e.shared != 0 || n < 0 {
			return 0, p
		}
		key := b.data[e.suffix : e.suffix+n : e.suffix+n]
		var c int
		if bytewise {
			c = bytes.Compare(key, userKey)
		} else {
			c = cmp.Compare(key, userKey)
		}
		if c < 0 || c == 0 && util.Fixed64(b.data[e.suffix+n:e.value]) > trailer {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo, -1
}

// found is the result of a point search in a block.
type found struct {
	value   []byte
	trailer uint64
	ok      bool // the block has an entry of the user key at or after the target
	atEnd   bool // every entry is before the target
}

// get finds the first entry at or after the target (userKey, trailer) and reports whether it has that user key. For any
// bytes it gives the same result as blockIter.seekGE, and rejects the same blocks. pv are the block's pivots, or nil.
func (b *Block) get(pv *pivots, cmp *base.Comparer, userKey []byte, trailer uint64) (found, error) {
	if b.empty() {
		return found{atEnd: true}, nil
	}
	if cmp.IsBytewise() {
		f, state, at := b.getBytewise(pv, userKey, trailer)
		switch {
		case state == "":
			return f, nil
		case state != needsKeys:
			return found{}, b.getFault(at, state)
		}
	}
	return b.getRebuilding(cmp, userKey, trailer)
}

// prefetchBytes is how much of a restart interval is loaded into the processor's cache before its entries are read.
// With 85 MB of cached blocks and 16 entries of 124 bytes per interval, lookups of random keys took 2.19 us without it,
// 1.81 with 1 KiB, 1.75 with 1.5 KiB and 1.67 with all of the block; those of hot blocks 0.29, 0.29, 0.31 and 0.32.
const prefetchBytes = 1 << 10

// needsKeys is returned by getBytewise if it cannot decide without rebuilding keys.
const needsKeys = "needs keys"

// iterPool saves getRebuilding the allocation of iterators.
var iterPool = sync.Pool{New: func() any { return new(blockIter) }}

// getRebuilding is get by way of a blockIter.
//
//go:noinline
func (b *Block) getRebuilding(cmp *base.Comparer, userKey []byte, trailer uint64) (f found, err error) {
	it := iterPool.Get().(*blockIter)
	it.init(cmp, *b, "data block")
	if it.seekGE(userKey, trailer) {
		if cmp.Compare(base.UserKey(it.key), userKey) == 0 {
			f = found{value: it.Value(), trailer: base.Trailer(it.key), ok: true}
		}
	} else {
		f.atEnd = true
	}
	err = it.err
	it.block, it.err = Block{}, nil // the pool must not keep a block alive
	it.trim()
	iterPool.Put(it)
	return f, err
}

// getBytewise is get for keys in bytewise order. It rebuilds no key. It keeps how
// many bytes of the target the previous entry's user key matched, and knows that
// this entry was before the target. The next entry's shared length then decides.
//
// Let u be the target's user key, n its length, prev the previous user key, m the length of the common prefix of u and
// prev, s the shared length and next the user key to judge. Then prev < u with a smaller byte at m, or prev is u's
// prefix (m = len(prev) < n), or prev = u with a newer trailer.
//
//   - len(next) <= min(s, m), not all of u: next is a prefix of u, so before it.
//   - s <= m: next begins with u[:s]; only its suffix is compared, with u[s:].
//   - s > m, m < len(prev): next has prev's smaller byte at m: before it too.
//   - s > m = len(prev) = n: the shared bytes reach into the trailer. next is u
//     in another version, or u with more bytes, hence after it.
//   - s > m = len(prev) < n: next continues with bytes of prev's trailer. That
//     is rare (a key, then another that continues it with 0x00 or 0x01) and is
//     left to the iterator.
//
// bad is empty on success, needsKeys, or the fault of the entry at position at.
func (b *Block) getBytewise(pv *pivots, u []byte, trailer uint64) (f found, bad string, at int) {
	var s start
	ok := false
	if pv != nil {
		if s, ok = pv.find(b, u); ok {
			s.touch(b)
			ok = s.holds(b, u)
		}
	}
	if !ok {
		r, wrong := b.searchRestarts(base.Bytewise, true, u, trailer)
		if wrong >= 0 {
			return f, badEntryRestart, wrong
		}
		s = start{r: r, p: b.restart(r), limit: b.restartLimit(r)}
		s.touch(b)
	}
	return b.getInInterval(s.r, s.p, s.limit, u, trailer)
}

// touch loads the interval's cache lines, up to prefetchBytes bytes.
func (s *start) touch(b *Block) byte {
	return hugepages.Touch(b.data[s.p : s.p+min(s.limit-s.p, prefetchBytes)])
}

// getInInterval searches the interval of restart point r, which begins at p and ends at limit.
func (b *Block) getInInterval(r, p, limit int, u []byte, trailer uint64) (f found, bad string, at int) {
	data, n := b.data, len(u)
	var (
		m, prevLen  int                   // of user keys
		keyLen      int                   // of the previous internal key, the bytes that can be shared
		prevTrailer [base.TrailerLen]byte // set while prev = u
		e           entry
		ok          bool
	)
	for ; p < limit; p = e.valueEnd {
		e, ok = readEntry(data, p, b.entriesEnd)
		switch {
		case !ok:
			return f, badEntryBytes, p
		case e.shared > keyLen:
			return f, badEntryShared, p
		case e.valueEnd > limit:
			return f, badEntryRestart, p
		}
		s := e.shared
		keyLen = s + e.value - e.suffix
		nextLen := keyLen - base.TrailerLen
		if nextLen < 0 {
			return f, badEntryKey, p
		}
		switch {
		case s > m && m < prevLen, nextLen <= min(s, m) && nextLen < n:
			m = min(m, nextLen)

		case s > m && m < n:
			return f, needsKeys, p

		case s > m: // prev = u
			if nextLen > n {
				kind := prevTrailer[min(nextLen-n, base.TrailerLen-1)]
				if nextLen >= s {
					kind = data[e.suffix+nextLen-s]
				}
				return b.otherKey(kind, p)
			}
			copy(prevTrailer[s-n:], data[e.suffix:e.value])
			if t := util.Fixed64(prevTrailer[:]); t <= trailer {
				return b.landed(e, t, p)
			}

		default:
			end := e.value - base.TrailerLen
			suffix := data[e.suffix:end]
			k := base.SharedPrefixLen(suffix, u[s:])
			m = s + k
			if k < len(suffix) {
				if m == n || suffix[k] > u[m] {
					return b.otherKey(data[end], p)
				}
			} else if m == n {
				copy(prevTrailer[:], data[end:e.value])
				if t := util.Fixed64(prevTrailer[:]); t <= trailer {
					return b.landed(e, t, p)
				}
			}
		}
		prevLen = nextLen
	}
	if r+1 == int(b.numRestarts) {
		return found{atEnd: true}, "", 0
	}
	return b.getAtRestart(r+1, u)
}

// landed returns the result if e, at position p, is a version of the target.
func (b *Block) landed(e entry, trailer uint64, p int) (f found, bad string, at int) {
	if base.Kind(trailer&0xff) > base.KindRef {
		return f, badEntryKey, p
	}
	return found{value: b.data[e.value:e.valueEnd:e.valueEnd], trailer: trailer, ok: true}, "", 0
}

// otherKey returns the result if the first entry that is not before the target, at
// position p, has another user key. It checks the kind, as the iterator does.
func (b *Block) otherKey(kind byte, p int) (f found, bad string, at int) {
	if base.Kind(kind) > base.KindRef {
		return f, badEntryKey, p
	}
	return f, "", 0
}

// getAtRestart returns the result from restart point r, whose key is at or after the target.
func (b *Block) getAtRestart(r int, u []byte) (f found, bad string, at int) {
	p := b.restart(r)
	e, ok := readEntry(b.data, p, b.entriesEnd)
	end := e.value - base.TrailerLen
	switch {
	case !ok:
		return f, badEntryBytes, p
	case e.shared != 0:
		return f, badEntryShared, p
	case e.valueEnd > b.restartLimit(r):
		return f, badEntryRestart, p
	case end < e.suffix:
		return f, badEntryKey, p
	}
	if string(b.data[e.suffix:end]) != string(u) {
		return b.otherKey(b.data[end], p)
	}
	return b.landed(e, util.Fixed64(b.data[end:e.value]), p)
}

// getFault returns the error for a bad entry at position p, which a search found for the reason why. The search does
// not keep keys, so it reads the block again to find out whether only a later version knows the kind of that entry.
func (b *Block) getFault(p int, why string) error {
	fault := corruptEntry(dataPart, p, why)
	if why != badEntryKey {
		return fault
	}
	_ = b.eachEntry(dataPart, func(key, _ []byte) error {
		if base.HasNewerKind(key) {
			fault = newerEntry(dataPart, p, key)
		}
		return nil
	})
	return fault
}
