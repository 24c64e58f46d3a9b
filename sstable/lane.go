package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// lane is a part of a data block through which an Iter takes steps that need no comparison of whole keys:
// see EnterLane.
//
// Let m be the number of bytes that the current user key and the fence begin with in common. The next key is stored as
// the difference to the current one. If it shares more than m bytes, it differs from the fence where the current key
// does, and is on the same side of it. If it shares fewer, it is on the other side: it has left the current key, in the
// direction of the walk, in a byte that the fence shares. Otherwise the byte after the shared ones usually decides.
type lane struct {
	fence  []byte // a user key, which no key of the lane reaches; nil: none
	common int    // m, or -1 without a fence
	newest uint64 // the greatest trailer of a visible entry with a value
	began  int    // where the entry at which it began is in the block
}

// EnterLane begins a lane at the current entry: then NextInLane, or BackInLane if backward is set, takes quick
// steps to entries whose user keys no other entry has. fence is a user key that the lane does not reach: after the
// current one, or before it if backward is set; nil means none. The slice must not change until the last step in the
// lane. newest is the greatest trailer of a visible entry with a value.
//
// EnterLane returns false if there is no lane: keys are not bytewise, the current one is not on its side of the
// fence or, backward, not known to differ from the previous one.
func (it *Iter) EnterLane(fence []byte, newest uint64, backward bool) bool {
	d := &it.data
	if !d.bytewise || d.pos < 0 || backward != (len(d.past) > 0) {
		return false
	}
	if backward && !d.past[len(d.past)-1].apart {
		return false
	}
	it.lane = lane{fence: fence, common: -1, newest: newest, began: d.pos}
	return fence == nil || it.lane.passes(base.UserKey(d.key), backward)
}

// SteppedInLane reports whether the iterator has taken a step since EnterLane, if all steps since then were in the
// lane.
func (it *Iter) SteppedInLane() bool { return it.data.pos != it.lane.began }

// passes reports whether a user key is on the right side of the fence. If it is, common is set for it.
func (l *lane) passes(user []byte, backward bool) bool {
	low, high := user, l.fence
	if backward {
		low, high = high, low
	}
	n := base.SharedPrefixLen(low, high)
	if n == len(high) || n < len(low) && low[n] > high[n] {
		return false
	}
	l.common = n
	return true
}

// visible reports whether an entry with this trailer has a value that is shown.
func (l *lane) visible(trailer uint64) bool {
	return base.Kind(trailer&0xff) == base.KindSet && trailer <= l.newest
}

// NextInLane is Next if the next entry has a value, is visible, is before the fence and has another user key than the
// current one, and this is quickly known. Otherwise it returns false and the iterator does not move.
func (it *Iter) NextInLane() bool {
	d := &it.data
	p, data, key := d.cur.valueEnd, d.block.data[:d.limit], d.key
	if p > len(data)-4 {
		return p == len(data) && it.nextIntervalInLane()
	}
	shared, unshared, length, suffix := int(data[p]), int(data[p+1]), int(data[p+2]), p+3
	if length >= 0x80 { // a value of up to 16 KiB
		length, suffix = length&0x7f|int(data[p+3])<<7, p+4
		if data[p+3] >= 0x80 {
			return false
		}
	}
	value := suffix + unshared
	valueEnd := value + length
	// Both user keys continue after the shared bytes, with bytes that differ.
	if valueEnd > len(data) || unshared <= base.TrailerLen || shared >= len(key)-base.TrailerLen ||
		(shared|unshared) >= 0x80 || data[suffix] == key[shared] {
		return false
	}
	trailer := util.Fixed64(data[value-base.TrailerLen:])
	if !it.lane.visible(trailer) {
		return false
	}
	if l := &it.lane; shared <= l.common && !l.nextPasses(shared, data[suffix:value-base.TrailerLen]) {
		return false
	}
	d.key = replaceEnd(key, shared, data[suffix:value])
	d.cur, d.pos = entry{shared: shared, suffix: suffix, value: value, valueEnd: valueEnd}, p
	return true
}

// nextPasses reports whether the next key, which shares so many bytes with the current one, at most
// common, and continues with rest, is before the fence.
func (l *lane) nextPasses(shared int, rest []byte) bool {
	if shared < l.common { // it is after the current key in a byte that the fence shares
		return false
	}
	switch first := rest[0]; {
	case first < l.fence[shared]:
		return true
	case first > l.fence[shared]:
		return false
	}
	n := base.SharedPrefixLen(rest, l.fence[shared:])
	if n < len(l.fence)-shared && (n == len(rest) || rest[n] < l.fence[shared+n]) {
		l.common = shared + n
		return true
	}
	return false
}

// nextIntervalInLane is NextInLane after the last entry of a restart interval.
func (it *Iter) nextIntervalInLane() bool {
	d := &it.data
	e, r, limit, ok := d.peekInterval()
	if !ok {
		return false
	}
	key := d.block.data[e.suffix:e.value]
	if len(key) > plainKeyLen || !it.lane.visible(base.Trailer(key)) {
		return false
	}
	if l := &it.lane; l.fence != nil && !l.passes(base.UserKey(key), false) {
		return false
	}
	d.key = append(d.key[:0], key...)
	d.cur, d.pos, d.restart, d.limit = e, d.cur.valueEnd, r, limit
	return true
}

// BackInLane is Prev if the previous entry is remembered, has a value, is visible, is after the fence and
// has another user key than its own predecessor, which is remembered too. Otherwise it returns false and
// the iterator does not move.
func (it *Iter) BackInLane() bool {
	d := &it.data
	i := len(d.past) - 2
	if i < 0 {
		return false
	}
	e, shared := &d.past[i], int(d.past[i+1].common)
	start, n := int(e.key), e.keyLen()
	if !e.apart || n > cap(d.key) {
		return false
	}
	key := d.pastKeys[start : start+n]
	trailer := base.Trailer(key)
	if !it.lane.visible(trailer) {
		return false
	}
	if l := &it.lane; shared <= l.common && !l.backPasses(shared, base.UserKey(key)) {
		return false
	}
	d.leave(i)
	d.key = replaceEnd(d.key, shared, key[shared:])
	return true
}

// backPasses reports whether user, the previous key, which shares so many bytes with the current one, at most
// common, is after the fence.
func (l *lane) backPasses(shared int, user []byte) bool {
	// With fewer, it is before the current key in a byte that the fence shares.
	return shared == l.common && l.passes(user, true)
}

// replaceEnd returns key[:n] with end after it, in key's memory if that suffices.
func replaceEnd(key []byte, n int, end []byte) []byte {
	const word = base.TrailerLen
	if n+len(end) > cap(key) || len(end) < word || len(end) > 2*word {
		return append(key[:n], end...)
	}
	// Two copies of eight bytes, which may overlap, are faster than a call.
	key = key[:n+len(end)]
	util.PutFixed64(key[n:], util.Fixed64(end))
	util.PutFixed64(key[len(key)-word:], util.Fixed64(end[len(end)-word:]))
	return key
}
