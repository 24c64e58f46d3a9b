package memtable

import (
	"bytes"
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
)

// target is an internal key to search for, in its parts.
type target struct {
	key     []byte // the user key
	trailer uint64
	// prefix is keyPrefix of key from skip on, for the bytewise order only. All nodes
	// that the key is compared with have its first skip bytes: see guide.
	prefix uint64
	skip   int
	// touched only keeps the loads that it sums up from being optimized away.
	touched uint32
}

func (m *Memtable) newTarget(key []byte, trailer uint64) target {
	t := target{key: key, trailer: trailer}
	if m.bytewise {
		t.prefix = keyPrefix(key)
	}
	return t
}

// search returns the last node before t and the first one at or after t, which are
// neighbours on the bottom level. Either may be end.
func (m *Memtable) search(t *target) (before, after uint32) {
	before, level := m.start(t)
	for ; level >= 0; level-- {
		before, after = m.searchLevel(before, after, level, t)
	}
	return before, after
}

// start returns a node before t and a level that it is on, from which a search can continue.
func (m *Memtable) start(t *target) (before uint32, level int) {
	if g := m.guide.Load(); g != nil {
		if node, ok := g.find(t); ok {
			return node, guideLevel
		}
	}
	return end, int(m.height.Load()) - 1
}

// searchLevel walks level from the node before, which precedes t, and returns the neighbours between which t belongs.
// bound is end or a node on this level that does not precede t, usually the result for the level above; it spares
// comparing that node again.
func (m *Memtable) searchLevel(before, bound uint32, level int, t *target) (uint32, uint32) {
	if !m.bytewise {
		return m.searchLevelCustom(before, bound, level, t)
	}
	// The first eight bytes are compared inline. With function calls only for the remaining bytes, a search among
	// uniform keys is about 7 % faster. Keeping the prefix in the node, as an integer, measured no better than loading
	// it from the key and would cost 8 bytes per entry.
	prefix, skip := t.prefix, t.skip
	for {
		next := m.next(before, level).Load()
		if level > 0 {
			// The walk goes there if next is too far. Loading both nodes at the same
			// time, not one after the other, saves a sixth of an insertion.
			t.touched += m.keyLen(m.next(before, level-1).Load())
		}
		if next == bound {
			return before, next
		}
		if p := m.keyTail(next, skip); p > prefix || p == prefix && !m.precedesAfterPrefix(next, t) {
			return before, next
		}
		before = next
	}
}

// searchLevelCustom is searchLevel for orders other than bytewise.
func (m *Memtable) searchLevelCustom(before, bound uint32, level int, t *target) (uint32, uint32) {
	for {
		next := m.next(before, level).Load()
		if next == bound || !m.precedes(next, t) {
			return before, next
		}
		before = next
	}
}

// precedes reports whether node, which is not the head, sorts before t.
func (m *Memtable) precedes(node uint32, t *target) bool {
	if m.bytewise {
		if p := m.keyTail(node, t.skip); p != t.prefix {
			return p < t.prefix
		}
		return m.precedesAfterPrefix(node, t)
	}
	if order := m.compare(m.userKey(node), t.key); order != 0 {
		return order < 0
	}
	return m.trailer(node) > t.trailer
}

// precedesAfterPrefix is precedes in the bytewise order, for a node whose keyTail equals t.prefix.
func (m *Memtable) precedesAfterPrefix(node uint32, t *target) bool {
	a, b := m.userKey(node), t.key
	n := min(len(a), len(b))
	i := t.skip + 8
	for ; i+8 <= n; i += 8 {
		if p, q := binary.BigEndian.Uint64(a[i:]), binary.BigEndian.Uint64(b[i:]); p != q {
			return p < q
		}
	}
	if i < n {
		if order := bytes.Compare(a[i:], b[i:]); order != 0 {
			return order < 0
		}
	} else if len(a) != len(b) {
		return len(a) < len(b)
	}
	return m.trailer(node) > t.trailer
}

// hasKey reports whether the comparer considers node's user key equal to key.
func (m *Memtable) hasKey(node uint32, key []byte) bool {
	if m.bytewise {
		return bytes.Equal(m.userKey(node), key)
	}
	return m.compare(m.userKey(node), key) == 0
}

// seekTarget returns the target for an internal key.
func (m *Memtable) seekTarget(ikey []byte) target {
	return m.newTarget(base.UserKey(ikey), base.Trailer(ikey))
}
