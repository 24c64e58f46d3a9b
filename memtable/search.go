package memtable

import (
	"bytes"
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
)

// target is an internal key that is searched for, taken apart once.
type target struct {
	key     []byte // the user key
	trailer uint64
	// prefix is keyPrefix of key from skip on, for the bytewise order only. All nodes
	// that the key is compared with have its first skip bytes: see guide.
	prefix uint64
	skip   int
	// touched is of no use but that the loads which it sums up are not optimized
	// away.
	touched uint32
}

func (m *Memtable) newTarget(key []byte, trailer uint64) target {
	t := target{key: key, trailer: trailer}
	if m.bytewise {
		t.prefix = keyPrefix(key)
	}
	return t
}

// search returns the last node before t and the first one at or behind t,
// neighbours on the bottom level; either may be end.
func (m *Memtable) search(t *target) (before, behind uint32) {
	before, level := m.start(t)
	for ; level >= 0; level-- {
		before, behind = m.searchLevel(before, behind, level, t)
	}
	return before, behind
}

// start returns a node before t and a level that it is on, from which a search may
// go on.
func (m *Memtable) start(t *target) (before uint32, level int) {
	if g := m.guide.Load(); g != nil {
		if node, ok := g.find(t); ok {
			return node, guideLevel
		}
	}
	return end, int(m.height.Load()) - 1
}

// searchLevel walks level from the node before, which precedes t, and returns
// the neighbours between which t belongs. bound is a node on this level that
// does not precede t, as a rule what the level above returned, so that no node
// is compared twice; the walk meets it, or end where it is end.
func (m *Memtable) searchLevel(before, bound uint32, level int, t *target) (uint32, uint32) {
	if !m.bytewise {
		return m.searchLevelCustom(before, bound, level, t)
	}
	// The first eight bytes are compared right here: with calls out of the loop
	// for the rest only, a search among uniform keys is some 7 % faster. Keeping the
	// prefix in the node, ready as an integer, measured no better than loading it
	// from the key and would cost each entry 8 bytes.
	prefix, skip := t.prefix, t.skip
	for {
		next := m.next(before, level).Load()
		if level > 0 {
			// Where the walk goes if next is too far: the two nodes come from memory at
			// the same time, not one after the other. A sixth of an insertion.
			t.touched += m.keyLen(m.next(before, level-1).Load())
		}
		if next == bound {
			return before, next
		}
		if p := m.keyTail(next, skip); p > prefix || p == prefix && !m.precedesBehindPrefix(next, t) {
			return before, next
		}
		before = next
	}
}

// searchLevelCustom is searchLevel for any other order than the bytewise.
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
		return m.precedesBehindPrefix(node, t)
	}
	if order := m.compare(m.userKey(node), t.key); order != 0 {
		return order < 0
	}
	return m.trailer(node) > t.trailer
}

// precedesBehindPrefix is precedes for a node whose prefix is t's, in the
// bytewise order.
func (m *Memtable) precedesBehindPrefix(node uint32, t *target) bool {
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

// hasKey reports whether node's user key equals key in the comparer's order.
func (m *Memtable) hasKey(node uint32, key []byte) bool {
	if m.bytewise {
		return bytes.Equal(m.userKey(node), key)
	}
	return m.compare(m.userKey(node), key) == 0
}

// seekTarget takes an internal key of an Iterator call apart.
func (m *Memtable) seekTarget(ikey []byte) target {
	return m.newTarget(base.UserKey(ikey), base.Trailer(ikey))
}
