package sstable

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// Walking backward reads a block one interval at a time. A key is stored as the difference to the previous key, so an
// interval is read from its restart point on and remembered. Of an interval with very many entries, only the last ones
// are remembered, and of the others each 4096th with its key, from which the iterator reads on when it comes to them.

const (
	// maxPastKeys bounds blockIter.pastKeys, in bytes: the keys of most intervals fit.
	maxPastKeys = 4 << 10
	// maxPast bounds blockIter.past, in entries.
	maxPast = 4 << 10
)

// pastMarks are entries of the current interval from which an iterator can read on. past begins with the last of them.
// Their keys have at most as many bytes as the interval, and a 4096th of its unfolded keys.
type pastMarks struct {
	at   []int // where the entries begin
	keys [][]byte
}

// mark makes the current entry the first of past, and a mark.
func (it *blockIter) mark() {
	if it.marks == nil {
		it.marks = new(pastMarks)
	}
	m := it.marks
	m.at, m.keys = append(m.at, it.pos), append(m.keys, bytes.Clone(it.key))
	it.pastFromMark()
}

// pastFromMark makes past the current entry, which is the last mark.
func (it *blockIter) pastFromMark() {
	it.past, it.pastKeys = it.past[:0], it.pastKeys[:0]
	it.past = append(it.past, it.pastEntry(-1, -1))
}

// markKey returns the key of the first entry of past, if that is a mark.
func (it *blockIter) markKey() []byte { return it.marks.keys[len(it.marks.keys)-1] }

// prevMark moves to the last entry before the last mark, at which the iterator is.
func (it *blockIter) prevMark() bool {
	m := it.marks
	last := len(m.at) - 1
	end := m.at[last]
	m.at, m.keys = m.at[:last], m.keys[:last]
	if last == 0 {
		it.toRestart(it.restart)
		return it.lastBefore(end)
	}
	p := m.at[last-1]
	e, ok := readEntry(it.block.data, p, it.limit) // it was read before
	if !ok {
		return it.fail(p, badEntryBytes)
	}
	it.cur, it.pos, it.key = e, p, append(it.key[:0], it.markKey()...)
	it.pastFromMark()
	return it.lastBefore(end)
}

// pastEntry is an entry that was read on the way to the current one. Positions in a
// block fit in 32 bits, see maxBlockLen.
type pastEntry struct {
	pos, shared, suffix, value, valueEnd int32 // as in entry

	// key is where the key begins in pastKeys, or -1 if it is not there. Then donor is the index in past of the nearest
	// earlier entry that shares fewer bytes than this one, or whose key is in pastKeys. It supplies the last of the
	// bytes of this key that are not in this entry's own suffix. -1 stands for the last mark, if there is one.
	key, donor int32

	// common is the number of bytes that the key has in common with that of the entry before it in past: shared,
	// but at a restart point. It, and apart, are only set by rememberPlain.
	common int32
	// apart is set if the entry and the one before it in past have keys in pastKeys with user keys that
	// differ in the byte after those in common.
	apart bool
}

func (e *pastEntry) entry() entry {
	return entry{shared: int(e.shared), suffix: int(e.suffix), value: int(e.value), valueEnd: int(e.valueEnd)}
}

func (e *pastEntry) keyLen() int { return int(e.shared + e.value - e.suffix) }

// Prev moves to the previous entry, which past remembers, instead of reading the interval again for each step.
//
// The bytes that key i shares with the previous key, i-1, are in it.key. The others are in pastKeys, or else in the
// entries' suffixes: those of key i-1 are in its own suffix or, if it shared them with its predecessor, in the suffixes
// of its donors. Each byte of the interval is copied back at most once, where it had been dropped. So walking through
// an interval costs time in proportion to its size, whatever the lengths stored in it.
func (it *blockIter) Prev() bool {
	if it.StepBack() {
		return true
	}
	if len(it.past) == 0 {
		return it.prevUnremembered()
	}
	i := len(it.past) - 2
	switch {
	case i < 0 && it.pastWhole:
		it.unposition()
		return false
	case i < 0 && it.marks != nil && len(it.marks.at) > 0:
		return it.prevMark()
	case i < 0:
		return it.prevInterval()
	}
	kept := it.leave(i)
	it.restoreKey(kept, i)
	return it.landed()
}

// StepBack is Prev if the previous entry is remembered with its key. Otherwise it returns
// false and the iterator does not move.
func (it *blockIter) StepBack() bool {
	i := len(it.past) - 2
	if i < 0 {
		return false
	}
	e := &it.past[i]
	start, n := int(e.key), e.keyLen()
	if start < 0 || n > cap(it.key) || base.Kind(it.pastKeys[start+n-base.TrailerLen]) > base.KindRef {
		return false
	}
	kept := it.leave(i)
	it.key = it.key[:n]
	copy(it.key[kept:], it.pastKeys[start+kept:start+n])
	return true
}

// leave makes past[i] the current entry, except for its key. It returns how many bytes of
// it.key are the beginning of that key.
func (it *blockIter) leave(i int) (kept int) {
	kept = it.cur.shared
	if it.pastWhole && kept == 0 && it.pos == it.block.restart(it.restart) {
		it.restart, it.limit = it.restart-1, it.pos
	}
	if k := it.past[i+1].key; k >= 0 {
		it.pastKeys = it.pastKeys[:k]
	}
	it.past = it.past[:i+1]
	e := &it.past[i]
	it.cur, it.pos = e.entry(), int(e.pos)
	return kept
}

// prevUnremembered is Prev if past is empty because the entry was not reached backward.
func (it *blockIter) prevUnremembered() bool {
	pos := it.pos
	if pos == it.block.restart(it.restart) {
		return it.prevInterval()
	}
	it.toRestart(it.restart)
	return it.lastBefore(pos)
}

// prevInterval moves to the last entry of the previous interval.
func (it *blockIter) prevInterval() bool {
	if it.restart == 0 {
		it.unposition()
		return false
	}
	it.toRestart(it.restart - 1)
	return it.lastBefore(it.limit)
}

// restoreKey makes it.key the key of past[i], whose first kept bytes are in it.key already.
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
		if e.donor < 0 {
			copy(it.key[kept:end], it.markKey()[kept:])
			return
		}
	}
	copy(it.key[kept:end], it.pastKeys[int(e.key)+kept:])
}

// lastBefore steps from the restart point that toRestart chose, or from a mark, to the last
// entry that begins before position end, and remembers the entries on the way.
func (it *blockIter) lastBefore(end int) bool {
	if len(it.past) == 0 {
		it.rememberPlain(end)
	}
	for it.cur.valueEnd < end {
		if !it.step() {
			return false
		}
		it.remember()
	}
	return it.landed()
}

// lastOfWhole is Last, and remembers all entries of the block, not only those of its last interval. It returns false,
// and is not positioned, if the block has many entries, or some that are rare or malformed.
func (it *blockIter) lastOfWhole() bool {
	b := &it.block
	if it.err != nil || b.empty() || b.entriesEnd > maxTouched {
		return false
	}
	it.toRestart(0)
	for r := range int(b.numRestarts) {
		it.restart, it.limit = r, b.restartLimit(r)
		if !it.rememberPlain(it.limit) {
			it.unposition()
			return false
		}
	}
	it.pastWhole = true
	return it.landed()
}

// rememberPlain is the fast path of lastBefore, as long as entries have three one-byte lengths that fit, and keys have
// room in pastKeys. It rebuilds keys there and copies only the last one. It returns true if it came to end.
func (it *blockIter) rememberPlain(end int) bool {
	data, past, keys := it.block.data[:it.limit], it.past, it.pastKeys
	p := it.cur.valueEnd
	before, beforeLen := 0, 0 // of the previous key in keys
	whole := true             // the key must be, at a restart point
	if n := len(past); n > 0 {
		before = int(past[n-1].key)
		beforeLen = len(keys) - before
	}
	for p < end && p <= len(data)-3 && (data[p]|data[p+1]|data[p+2])&0x80 == 0 {
		shared, unshared, suffix, at := int(data[p]), int(data[p+1]), p+3, len(keys)
		value := suffix + unshared
		valueEnd := value + int(data[p+2])
		n := shared + unshared
		if valueEnd > len(data) || shared > beforeLen || whole && shared > 0 || n < base.TrailerLen || n > maxPastKeys-at {
			break
		}
		if len(past) == cap(past) {
			past = slices.Grow(past, 16)
		}
		past = past[:len(past)+1]
		e := &past[len(past)-1] // faster than appending a pastEntry made elsewhere
		e.pos, e.shared, e.suffix = int32(p), int32(shared), int32(suffix)
		e.value, e.valueEnd, e.key = int32(value), int32(valueEnd), int32(at)
		common := shared
		if whole {
			common = base.SharedPrefixLen(keys[before:], data[suffix:value-base.TrailerLen])
			whole = false
		}
		e.common = int32(common)
		e.apart = common < min(beforeLen, n)-base.TrailerLen && keys[before+common] != data[suffix+common-shared]
		if at+n+copyLen > cap(keys) {
			keys = slices.Grow(keys, 16*n+copyLen)
		}
		keys = keys[:at+n+copyLen]
		copyShort(keys[at:], keys[before:], shared)
		copyShort(keys[at+shared:], it.block.data[suffix:], unshared)
		keys = keys[:at+n]
		p, before, beforeLen = valueEnd, at, n
	}
	it.past, it.pastKeys = past, keys
	if n := len(past); n > 0 {
		it.cur, it.pos = past[n-1].entry(), int(past[n-1].pos)
		it.key = append(it.key[:0], keys[before:]...)
	}
	return p == end
}

// copyLen is the number of bytes that copyShort may write too many.
const copyLen = 16

// copyShort copies n bytes, and others after them. For most keys, with at most copyLen bytes, it is faster than copy.
func copyShort(dst, src []byte, n int) {
	if n > copyLen || len(src) < copyLen || len(dst) < copyLen {
		copy(dst[:n], src)
		return
	}
	*(*[copyLen]byte)(dst) = *(*[copyLen]byte)(src)
}

// remember appends the current entry to past.
func (it *blockIter) remember() {
	if len(it.past) == maxPast {
		it.mark()
		return
	}
	if n := len(it.pastKeys); n+len(it.key) <= maxPastKeys {
		it.past = append(it.past, it.pastEntry(int32(n), 0))
		it.pastKeys = append(it.pastKeys, it.key...)
		return
	}
	it.past = append(it.past, it.pastEntry(-1, it.donor(int32(it.cur.shared))))
}

// pastEntry returns the current entry.
func (it *blockIter) pastEntry(key, donor int32) pastEntry {
	c := &it.cur
	return pastEntry{
		pos: int32(it.pos), shared: int32(c.shared), suffix: int32(c.suffix), value: int32(c.value), valueEnd: int32(c.valueEnd),
		key: key, donor: donor,
	}
}

// donor returns the donor of an entry that follows those of past and shares that many bytes, or -1 at a restart point.
func (it *blockIter) donor(shared int32) int32 {
	d := int32(len(it.past)) - 1
	for d >= 0 && it.past[d].key < 0 && it.past[d].shared >= shared {
		d = it.past[d].donor
	}
	return d
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
	if len(it.past) == 0 { // only the first interval can begin with an entry that is too great
		it.unposition()
		return false
	}
	if end < it.limit {
		// One step too far; go back to the last entry remembered.
		i := len(it.past) - 1
		kept := it.cur.shared
		it.cur, it.pos = it.past[i].entry(), int(it.past[i].pos)
		it.restoreKey(kept, i)
	}
	return it.landed()
}
