package sstable

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// blockIter iterates over the entries of one block whose keys are internal keys. It is a base.Iterator, which Iter uses
// without the cost of the interface. A block's bytes are not trusted: the iterator checks the lengths and the trailer
// of each entry that it comes to, and its agreement with the restart array.
type blockIter struct {
	cmp      *base.Comparer
	bytewise bool // cmp.IsBytewise()
	block    Block
	part     string // names the block in errors

	key     []byte // the current entry's key, rebuilt; the buffer is reused
	cur     entry  // the current entry
	pos     int    // where the current entry begins; -1 if there is none
	restart int    // the restart interval of pos
	limit   int    // where that interval ends
	err     error

	long unfolded // of the interval in which it came to a long key last

	// past has the entries of the current interval from its restart point, or from the
	// last mark, up to and including the current entry, once Prev has read them; it is
	// empty before that. pastKeys has the keys of the first of them. See Prev.
	past      []pastEntry
	pastKeys  []byte
	pastWhole bool       // past begins with the first entry of the block, see lastOfWhole
	marks     *pastMarks // nil unless past has no room for the interval
}

var _ base.Iterator = (*blockIter)(nil)

// init makes b the iterator's block. The iterator is not positioned. It keeps its buffers.
func (it *blockIter) init(cmp *base.Comparer, b Block, part string) {
	it.cmp, it.bytewise, it.block, it.part = cmp, cmp.IsBytewise(), b, part
	it.err, it.long = nil, unfolded{}
	it.unposition()
}

func (it *blockIter) unposition() {
	it.pos = -1
	it.key = it.key[:0]
	it.forget()
}

// forget drops what Prev has remembered of the interval.
func (it *blockIter) forget() {
	it.past = it.past[:0]
	it.pastKeys = it.pastKeys[:0]
	it.pastWhole = false
	if it.marks != nil { // rarely; the store would cost more
		it.marks = nil
	}
}

// maxIdleKey bounds the memory of the key of an idle blockIter, in bytes.
const maxIdleKey = 64 << 10

// trim releases the memory of long keys and long restart intervals. The iterator must not be positioned.
func (it *blockIter) trim() {
	if cap(it.key) > maxIdleKey {
		it.key = nil
	}
	if cap(it.past) > maxPast {
		it.past = nil
	}
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
	switch {
	case it.err != nil:
	case why == badEntryKey && base.HasNewerKind(it.key):
		it.err = newerEntry(it.part, p, it.key)
	default:
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

// step reads the entry after the current one, which must be within the current restart interval, and rebuilds its key.
// It does not check the kind, because a search checks only the entry that it ends at, as the point search does.
//
// Three one-byte lengths that fit are the common case. stepAny handles the others and reports bad entries.
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

// NextDistinct is Next if the next entry has different user key bytes and its first bytes show that. Otherwise it
// returns false and the iterator does not move, for example at the end of the block or if the entry might be bad.
func (it *blockIter) NextDistinct() bool {
	p, data, key := it.cur.valueEnd, it.block.data[:it.limit], it.key
	if p == len(data) {
		return it.intervalApart()
	}
	if p > len(data)-3 || (data[p]|data[p+1]|data[p+2])&0x80 != 0 || len(it.past) > 0 {
		return false
	}
	shared, unshared, suffix := int(data[p]), int(data[p+1]), p+3
	value := suffix + unshared
	valueEnd := value + int(data[p+2])
	// Both user keys continue after the shared bytes, with bytes that differ.
	if valueEnd > len(data) || unshared <= base.TrailerLen || shared >= len(key)-base.TrailerLen ||
		data[suffix] == key[shared] {
		return false
	}
	if base.Kind(data[value-base.TrailerLen]) > base.KindRef {
		return false
	}
	it.key = append(key[:shared], data[suffix:value]...)
	it.cur, it.pos = entry{shared: shared, suffix: suffix, value: value, valueEnd: valueEnd}, p
	return true
}

// intervalApart is NextDistinct after the last entry of a restart interval. The next entry is
// stored with its whole key, which is compared with the current one.
func (it *blockIter) intervalApart() bool {
	e, r, limit, ok := it.peekInterval()
	if !ok || len(it.past) > 0 {
		return false
	}
	p, key := it.cur.valueEnd, it.block.data[e.suffix:e.value]
	if len(key) > plainKeyLen && it.long.add(len(key), e.valueEnd, r, limit-p) != "" {
		return false
	}
	it.key = append(it.key[:0], key...)
	it.cur, it.pos, it.restart, it.limit = e, p, r, limit
	return true
}

// peekInterval returns the first entry of the next restart interval, r, which ends at limit, after the last entry of
// one. ok is false if there is none with a valid key that differs from the current one in its user key.
func (it *blockIter) peekInterval() (e entry, r, limit int, ok bool) {
	r, user := it.restart+1, len(it.key)-base.TrailerLen
	if r >= int(it.block.numRestarts) || user < 0 {
		return e, r, limit, false
	}
	limit = it.block.restartLimit(r)
	if e, ok = readEntry(it.block.data, it.cur.valueEnd, limit); !ok || e.shared != 0 {
		return e, r, limit, false
	}
	key := it.block.data[e.suffix:e.value]
	return e, r, limit, base.ValidInternalKey(key) && !bytes.Equal(base.UserKey(key), it.key[:user])
}

func (it *blockIter) stepAny() bool {
	p := it.cur.valueEnd
	e, ok := readEntry(it.block.data, p, it.block.entriesEnd)
	switch {
	case !ok:
		return it.fail(p, badEntryBytes)
	case e.shared > len(it.key):
		// At a restart point the key is empty, so this is the check that an entry there shares nothing.
		return it.fail(p, badEntryShared)
	case e.valueEnd > it.limit:
		return it.fail(p, badEntryRestart)
	}
	it.key = append(it.key[:e.shared], it.block.data[e.suffix:e.value]...)
	if n := len(it.key); n > plainKeyLen {
		if bad := it.long.add(n, e.valueEnd, it.restart, it.limit-it.block.restart(it.restart)); bad != "" {
			return it.fail(p, bad)
		}
	} else if n < base.TrailerLen {
		return it.fail(p, badEntryKey)
	}
	it.cur, it.pos = e, p
	return true
}

// landed checks the trailer of the entry at which a movement ended.
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
	if len(it.past) > 0 { // else alternating Next and Prev would reread the interval each time
		it.remember()
	}
	return it.landed()
}

// nextInterval moves to the first entry of the next interval.
func (it *blockIter) nextInterval() bool {
	if it.restart+1 >= int(it.block.numRestarts) {
		it.unposition()
		return false
	}
	it.toRestart(it.restart + 1)
	return it.step() && it.landed()
}

func (it *blockIter) SeekGE(ikey []byte) bool {
	return it.seekGE(base.UserKey(ikey), base.Trailer(ikey))
}

// seekGE is SeekGE with the two parts of the internal key.
func (it *blockIter) seekGE(userKey []byte, trailer uint64) bool {
	if !it.toInterval(userKey, trailer) {
		return false
	}
	s := start{r: it.restart, p: it.cur.valueEnd, limit: it.limit}
	return it.seekGEFrom(s, userKey, trailer)
}

// seekGEFrom is seekGE in a block that is not empty, if the search is known to begin at s.
func (it *blockIter) seekGEFrom(s start, userKey []byte, trailer uint64) bool {
	it.unposition()
	if it.err != nil {
		return false
	}
	it.restart, it.limit, it.cur.valueEnd = s.r, s.limit, s.p
	s.touch(&it.block)
	if it.bytewise {
		switch it.skipTo(userKey, trailer) {
		case skippedTo:
			return it.landed()
		case skippedAll:
			return it.nextInterval()
		}
	}
	return it.stepTo(userKey, trailer)
}

// maxForwardSteps is how many entries seekForward reads before it searches: half of an
// interval, which is what a search reads on average.
const maxForwardSteps = 8

// seekForward is seekGE to a target after the current entry.
func (it *blockIter) seekForward(userKey []byte, trailer uint64) bool {
	for range maxForwardSteps {
		if !it.Next() {
			return false
		}
		if !it.before(it.key, userKey, trailer) {
			return true
		}
	}
	r, bad := it.block.searchRestarts(it.cmp, it.bytewise, userKey, trailer)
	switch {
	case bad >= 0:
		return it.fail(bad, badEntryRestart)
	case r > it.restart:
		it.toRestart(r)
		return it.seekGEFrom(start{r: r, p: it.cur.valueEnd, limit: it.limit}, userKey, trailer)
	}
	// Not from the restart point again: many seeks would read a long interval many times.
	it.forget()
	if it.cur.valueEnd == it.limit {
		return it.nextInterval()
	}
	return it.stepTo(userKey, trailer)
}

// stepTo steps to the first entry that is not before the target: one of the current
// interval, or the first of the next one.
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
		// The search in the restart points found that the next one has a key at or after the target.
		return it.nextInterval()
	}
}

// toInterval moves to the restart interval in which the search for the target must
// begin: the last one whose first key is before the target, or the first.
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
