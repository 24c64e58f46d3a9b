package table

import (
	"encoding/binary"
	"sort"

	"github.com/syndtr/goleveldb/leveldb/comparer"
)

// blockWriter makes a block: entries whose keys share prefixes, and the offsets of those that do not.
type blockWriter struct {
	interval int
	buf      []byte
	restarts []uint32
	entries  int
	last     []byte
	since    int // entries since the last restart point
	unfolded int // bytes of keys that share; see tooFar
}

func (w *blockWriter) append(key, value []byte) {
	shared := 0
	if w.entries == 0 || w.since == w.interval || tooFar(w.unfolded+len(key), len(w.buf)) {
		w.restarts = append(w.restarts, uint32(len(w.buf)))
		w.since = 0
	} else {
		for shared < min(len(key), len(w.last)) && key[shared] == w.last[shared] {
			shared++
		}
		w.unfolded += len(key)
	}
	w.since++
	for _, n := range []int{shared, len(key) - shared, len(value)} {
		w.buf = binary.AppendUvarint(w.buf, uint64(n))
	}
	w.buf = append(append(w.buf, key[shared:]...), value...)
	w.last = append(w.last[:0], key...)
	w.entries++
}

// finish returns the block. It is valid until reset.
func (w *blockWriter) finish() []byte {
	if w.entries == 0 {
		w.restarts = []uint32{0}
	}
	for _, r := range append(w.restarts, uint32(len(w.restarts))) {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, r)
	}
	return w.buf
}

func (w *blockWriter) reset() {
	w.buf, w.restarts, w.last = w.buf[:0], w.restarts[:0], w.last[:0]
	w.entries, w.since, w.unfolded = 0, 0, 0
}

func (w *blockWriter) size() int { return len(w.buf) + 4*len(w.restarts) + 4 }

// tooFar reports whether keys that share bytes have so many bytes in a block of that size that it is refused: a few
// bytes could stand for gigabytes, since each key is held in memory. With a restart point for up to 64 keys a block is
// never refused, and the Writer writes additional ones before that.
func tooFar(keys, block int) bool { return keys > 1<<20 && keys > 64*block }

type entry struct{ key, value []byte }

// block is a decoded block. It implements iterator.Array.
type block struct {
	cmp     comparer.BasicComparer
	entries []entry
}

// parseBlock decodes a block. The reason is not empty if it is damaged.
func parseBlock(data []byte, cmp comparer.BasicComparer) (b *block, reason string) {
	if len(data) < 4 {
		return nil, "block too short"
	}
	restarts := int64(binary.LittleEndian.Uint32(data[len(data)-4:]))
	end := int64(len(data)) - 4*(restarts+1)
	if end < 0 {
		return nil, "bad restarts"
	}
	b = &block{cmp: cmp}
	var key []byte
	unfolded, size := 0, int(end)
	for data = data[:end]; len(data) > 0; {
		var n [3]uint64
		for i := range n {
			x, size := binary.Uvarint(data)
			if size <= 0 {
				return nil, "bad entry"
			}
			n[i], data = x, data[size:]
		}
		shared, rest, value := n[0], n[1], n[2]
		room := uint64(len(data))
		if shared > uint64(len(key)) || rest > room || value > room-rest {
			return nil, "entry exceeds the block"
		}
		if shared > 0 {
			if unfolded += int(shared + rest); tooFar(unfolded, size) {
				return nil, "keys expand too far"
			}
		}
		key = append(key[:shared:shared], data[:rest]...)
		b.entries = append(b.entries, entry{key, data[rest : rest+value : rest+value]})
		data = data[rest+value:]
	}
	return b, ""
}

func (b *block) Len() int { return len(b.entries) }

func (b *block) Search(key []byte) int {
	return sort.Search(len(b.entries), func(i int) bool { return b.cmp.Compare(b.entries[i].key, key) >= 0 })
}

func (b *block) Index(i int) (key, value []byte) {
	// A key that shares all of its predecessor may be nil, which iterators take for no key.
	return append([]byte{}, b.entries[i].key...), b.entries[i].value
}

// within returns the entries from start to limit; nil means no bound.
func (b *block) within(start, limit []byte) *block {
	from, to := 0, len(b.entries)
	if start != nil {
		from = b.Search(start)
	}
	if limit != nil {
		to = max(b.Search(limit), from)
	}
	return &block{cmp: b.cmp, entries: b.entries[from:to]}
}
