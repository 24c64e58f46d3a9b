package sstable

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// blockIter walks the entries of one block whose keys are internal keys. It is
// a base.Iterator without the interface's cost: Iter embeds it. A block's
// bytes are not trusted: each entry's lengths, its agreement with the restart
// array and its trailer are checked when the iterator comes to it.
type blockIter struct {
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise, asked once
	block    Block
	part     string // names the block in errors

	key     []byte // the current entry's key, rebuilt; the buffer is reused
	cur     entry  // the current entry
	pos     int    // where the current entry begins; -1 when not at one
	restart int    // the restart interval that pos lies in
	limit   int    // where that interval ends
	err     error

	// past holds the entries of the current interval from its restart point up
	// to and including the current entry, once Prev has asked for them; it is
	// empty before that. pastKeys holds the keys of the first of them. See Prev.
	past     []pastEntry
	pastKeys []byte
}

// maxPastKeys bounds blockIter.pastKeys, in bytes: the keys of most intervals fit.
const maxPastKeys = 4 << 10

// pastEntry is an entry that was passed on the way to the current one. Positions
// in a block fit 32 bits, see maxBlockLen.
type pastEntry struct {
	pos, shared, suffix, value, valueEnd int32 // as in entry

	// key is where the key begins in pastKeys, -1 where it is not there. Then donor
	// is the index in past of the nearest earlier entry that shares fewer bytes
	// than this one or whose key is in pastKeys: the one that ends the part of this
	// key that this entry's own suffix does not hold.
	key, donor int32
}

func (e *pastEntry) entry() entry {
	return entry{shared: int(e.shared), suffix: int(e.suffix), value: int(e.value), valueEnd: int(e.valueEnd)}
}

func (e *pastEntry) keyLen() int { return int(e.shared + e.value - e.suffix) }

var _ base.Iterator = (*blockIter)(nil)

// init points the iterator at a block, not positioned. Buffers are kept.
func (it *blockIter) init(cmp *base.Comparer, b Block, part string) {
	it.cmp, it.bytewise, it.block, it.part = cmp, cmp.IsBytewise(), b, part
	it.err = nil
	it.unposition()
}

func (it *blockIter) unposition() {
	it.pos = -1
	it.key = it.key[:0]
	it.past = it.past[:0]
	it.pastKeys = it.pastKeys[:0]
}

func (it *blockIter) Valid() bool { return it.pos >= 0 }
func (it *blockIter) Key() []byte { return it.key }
func (it *blockIter) Value() []byte {
	return it.block.data[it.cur.value:it.cur.valueEnd:it.cur.valueEnd]
}
func (it *blockIter) Err() error { return it.err }
func (it *blockIter) Close() error {
	it.unposition()
	return it.err
}

// fail records the first error and ends the walk.
func (it *blockIter) fail(p int, why string) bool {
	if it.err == nil {
		it.err = corruptEntry(it.part, p, why)
	}
	it.unposition()
	return false
}

// toRestart makes the entry at restart point i the next one that step reads.
func (it *blockIter) toRestart(i int) {
	it.unposition()
	it.restart = i
	it.limit = it.block.restartLimit(i)
	it.cur.valueEnd = it.block.restart(i)
}

// step reads the entry behind the current one, which must be within the
// current restart interval, and rebuilds its key. It checks all but the kind,
// so that a search refuses only what it lands on, as the point search does.
//
// Three one-byte lengths that fit are the common case; stepAny takes the others,
// and says what is wrong with an entry.
func (it *blockIter) step() bool {
	p, data := it.cur.valueEnd, it.block.data[:it.limit]
	if p > len(data)-3 || (data[p]|data[p+1]|data[p+2])&0x80 != 0 {
		return it.stepAny()
	}
	shared, suffix := int(data[p]), p+3
	value := suffix + int(data[p+1])
	valueEnd := value + int(data[p+2])
	if valueEnd > len(data) || shared > len(it.key) || shared+value-suffix < base.TrailerLen {
		return it.stepAny()
	}
	it.key = append(it.key[:shared], data[suffix:value]...)
	it.cur, it.pos = entry{shared: shared, suffix: suffix, value: value, valueEnd: valueEnd}, p
	return true
}

func (it *blockIter) stepAny() bool {
	p := it.cur.valueEnd
	e, ok := readEntry(it.block.data, p, it.block.entriesEnd)
	switch {
	case !ok:
		return it.fail(p, badEntryBytes)
	case e.shared > len(it.key):
		// At a restart point the key is empty, so this is the check that an
		// entry there shares nothing.
		return it.fail(p, badEntryShared)
	case e.valueEnd > it.limit:
		return it.fail(p, badEntryRestart)
	}
	it.key = append(it.key[:e.shared], it.block.data[e.suffix:e.value]...)
	if len(it.key) < base.TrailerLen {
		return it.fail(p, badEntryKey)
	}
	it.cur, it.pos = e, p
	return true
}

// landed checks the trailer of the entry that a movement ended at.
func (it *blockIter) landed() bool {
	if !base.ValidInternalKey(it.key) {
		return it.fail(it.pos, badEntryKey)
	}
	return true
}

func (it *blockIter) First() bool {
	if it.err != nil || it.block.empty() {
		it.unposition()
		return false
	}
	it.toRestart(0)
	return it.step() && it.landed()
}

func (it *blockIter) Last() bool {
	if it.err != nil || it.block.empty() {
		it.unposition()
		return false
	}
	it.toRestart(int(it.block.numRestarts) - 1)
	return it.lastBefore(it.limit)
}

func (it *blockIter) Next() bool {
	if it.cur.valueEnd >= it.limit {
		return it.nextInterval()
	}
	if !it.step() {
		return false
	}
	if len(it.past) > 0 { // or a walk to and fro would read the interval again and again
		it.remember()
	}
	return it.landed()
}

// nextInterval goes to the first entry of the interval behind.
func (it *blockIter) nextInterval() bool {
	if it.restart+1 >= int(it.block.numRestarts) {
		it.unposition()
		return false
	}
	it.toRestart(it.restart + 1)
	return it.step() && it.landed()
}

// Prev goes back to the entry before, which past remembers, instead of reading
// the interval again for each step.
//
// Of the previous key, i-1, the bytes that key i shares stand in it.key. The
// others are in pastKeys, or else in the entries' suffixes: what follows in key
// i-1 stands in its own suffix, or, for bytes that it shared in its turn, in those
// of its donors. Each byte of the interval is copied back at most once, where it
// came to be dropped, so a walk through an interval costs what it holds, however
// the lengths in it were chosen.
func (it *blockIter) Prev() bool {
	if len(it.past) == 0 {
		return it.prevUnremembered()
	}
	i := len(it.past) - 2
	if i < 0 {
		return it.prevInterval()
	}
	kept := it.cur.shared
	if k := it.past[i+1].key; k >= 0 {
		it.pastKeys = it.pastKeys[:k]
	}
	it.past = it.past[:i+1]
	e := &it.past[i]
	it.cur, it.pos = e.entry(), int(e.pos)
	it.restoreKey(kept, i)
	return it.landed()
}

// prevUnremembered is Prev where past is empty: the entry was not reached
// backward.
func (it *blockIter) prevUnremembered() bool {
	pos := it.pos
	if pos == it.block.restart(it.restart) {
		return it.prevInterval()
	}
	it.toRestart(it.restart)
	return it.lastBefore(pos)
}

// prevInterval goes to the last entry of the interval before.
func (it *blockIter) prevInterval() bool {
	if it.restart == 0 {
		it.unposition()
		return false
	}
	it.toRestart(it.restart - 1)
	return it.lastBefore(it.limit)
}

// restoreKey makes it.key the key of past[i], of which the first kept bytes
// stand in it.key already.
func (it *blockIter) restoreKey(kept, i int) {
	e := &it.past[i]
	end := e.keyLen()
	if end <= cap(it.key) {
		it.key = it.key[:end]
	} else {
		it.key = append(it.key, make([]byte, end-len(it.key))...)
	}
	for ; e.key < 0; e = &it.past[e.donor] {
		if from := max(int(e.shared), kept); from < end {
			copy(it.key[from:end], it.block.data[int(e.suffix)+from-int(e.shared):])
			end = from
		}
		if end <= kept {
			return // an entry that shares nothing has no donor
		}
	}
	copy(it.key[kept:end], it.pastKeys[int(e.key)+kept:])
}

// lastBefore steps from the restart point that toRestart chose to the last
// entry that begins before position end, remembering the way.
func (it *blockIter) lastBefore(end int) bool {
	for it.cur.valueEnd < end {
		if !it.step() {
			return false
		}
		it.remember()
	}
	return it.landed()
}

// remember appends the current entry to past.
func (it *blockIter) remember() {
	c := &it.cur
	e := pastEntry{pos: int32(it.pos), shared: int32(c.shared), suffix: int32(c.suffix), value: int32(c.value), valueEnd: int32(c.valueEnd)}
	if n := len(it.pastKeys); n+len(it.key) <= maxPastKeys {
		e.key = int32(n)
		it.pastKeys = append(it.pastKeys, it.key...)
	} else {
		e.key, e.donor = -1, it.donor(e.shared)
	}
	it.past = append(it.past, e)
}

// donor returns the donor of an entry behind those of past that shares so many
// bytes, -1 at a restart point.
func (it *blockIter) donor(shared int32) int32 {
	d := int32(len(it.past)) - 1
	for d >= 0 && it.past[d].key < 0 && it.past[d].shared >= shared {
		d = it.past[d].donor
	}
	return d
}
func (it *blockIter) SeekGE(ikey []byte) bool {
	return it.seekGE(base.UserKey(ikey), base.Trailer(ikey))
}

// seekGE is SeekGE with the internal key in its two pieces.
func (it *blockIter) seekGE(userKey []byte, trailer uint64) bool {
	if !it.toInterval(userKey, trailer) {
		return false
	}
	start := it.cur.valueEnd
	touch(it.block.data[start : start+min(it.limit-start, touchedAhead)])
	return it.stepTo(userKey, trailer)
}

// stepsOn is how many entries seekOn looks at before it searches: half of those of
// an interval, and so what the search looks at on average.
const stepsOn = 8

// seekOn is seekGE to a target behind the current entry.
func (it *blockIter) seekOn(userKey []byte, trailer uint64) bool {
	for range stepsOn {
		if !it.Next() {
			return false
		}
		if !it.before(it.key, userKey, trailer) {
			return true
		}
	}
	return it.seekGE(userKey, trailer)
}

// stepTo steps to the first entry that is not before the target: one of the
// interval at hand, or the first of the next one.
func (it *blockIter) stepTo(userKey []byte, trailer uint64) bool {
	for {
		if !it.step() {
			return false
		}
		if !it.before(it.key, userKey, trailer) {
			return it.landed()
		}
		if it.cur.valueEnd < it.limit {
			continue
		}
		// The search over the restart points found the next one to hold a key at
		// or behind the target.
		return it.nextInterval()
	}
}

func (it *blockIter) SeekLT(ikey []byte) bool {
	userKey, trailer := base.UserKey(ikey), base.Trailer(ikey)
	if !it.toInterval(userKey, trailer) {
		return false
	}
	end := it.limit
	for it.cur.valueEnd < it.limit {
		if !it.step() {
			return false
		}
		if !it.before(it.key, userKey, trailer) {
			end = it.pos
			break
		}
		it.remember()
	}
	if len(it.past) == 0 { // only in the first interval can its first entry be too great
		it.unposition()
		return false
	}
	if end < it.limit {
		// One step too far: go back to the last entry remembered.
		i := len(it.past) - 1
		kept := it.cur.shared
		it.cur, it.pos = it.past[i].entry(), int(it.past[i].pos)
		it.restoreKey(kept, i)
	}
	return it.landed()
}

// toInterval goes to the restart interval in which the search for the target
// must begin: the last one whose first key is before the target, or the first.
func (it *blockIter) toInterval(userKey []byte, trailer uint64) bool {
	it.unposition()
	if it.err != nil || it.block.empty() {
		return false
	}
	r, bad := it.block.searchRestarts(it.cmp, it.bytewise, userKey, trailer)
	if bad >= 0 {
		return it.fail(bad, badEntryRestart)
	}
	it.toRestart(r)
	return true
}

// before reports whether the internal key is before the target.
func (it *blockIter) before(key, userKey []byte, trailer uint64) bool {
	n := len(key) - base.TrailerLen
	var c int
	if it.bytewise {
		c = bytes.Compare(key[:n], userKey)
	} else {
		c = it.cmp.Compare(key[:n:n], userKey)
	}
	if c != 0 {
		return c < 0
	}
	return util.Fixed64(key[n:]) > trailer
}
