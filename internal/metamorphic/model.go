package metamorphic

import (
	"slices"
	"sort"
)

// model answers a history's operations from a sorted map.
type model struct {
	compare   func(a, b []byte) int
	entries   []entry // ascending
	shared    bool    // a snapshot or an iterator has entries too
	readOnly  bool
	load      []Write // written, but not committed
	snapshots [slots][]entry
	iterators [slots]modelIterator
}

type entry struct{ key, value []byte }

func newModel(h *History) *model { return &model{compare: h.Comparer.Compare} }

// do appends the answer to dst.
func (m *model) do(dst []byte, o *Op) []byte {
	switch o.Kind {
	case Put, Delete, Apply:
		if m.readOnly {
			return append(dst, answerReadOnly...)
		}
		for _, w := range writesOf(o) {
			m.write(w)
		}
	case NewLoad:
		if m.readOnly {
			return append(dst, answerReadOnly...)
		}
		m.load = o.Batch
	case CommitLoad:
		for _, w := range m.load {
			m.write(w)
		}
	case Get, Has:
		entries := m.view(o.Slot)
		i, found := m.find(entries, o.Key)
		if o.Kind == Has {
			return appendBool(dst, found)
		} else if !found {
			return append(dst, answerNotFound...)
		}
		return appendShown(dst, entries[i].value)
	case MultiGet:
		entries := m.view(o.Slot)
		values := make([][]byte, len(o.Keys))
		for i, key := range o.Keys {
			if at, found := m.find(entries, key); found {
				values[i] = append([]byte{}, entries[at].value...)
			}
		}
		return appendValues(dst, values)
	case NewSnapshot:
		m.snapshots[o.Slot], m.shared = m.entries, true
	case NewIterator:
		m.iterators[o.Slot] = m.newIterator(m.view(o.Of), o)
	case CloneIterator:
		m.iterators[o.Slot] = m.iterators[o.Of].clone(o)
	case Loop:
		it := m.newIterator(m.view(o.Of), o)
		for _, step := range []func() bool{it.Next, it.Prev} {
			for n := 0; n < max(o.Count, 1) && step(); n++ {
				dst = appendEntry(dst, it.Key(), it.Value())
			}
			it.at = len(it.entries)
		}
		return dst
	case Move:
		return appendMoves(dst, &m.iterators[o.Slot], o.Moves)
	case Reopen, Crash, OpenReadOnly:
		m.readOnly = o.Kind == OpenReadOnly
	case Finish:
		return append(dst, answerSound...)
	}
	return append(dst, answerDone...)
}

// writesOf returns a writing operation as a batch.
func writesOf(o *Op) []Write {
	if o.Kind == Apply {
		return o.Batch
	}
	return []Write{{Key: o.Key, Value: o.Value, Delete: o.Kind == Delete}}
}

func (m *model) view(snapshot int) []entry {
	if snapshot < 0 {
		return m.entries
	}
	return m.snapshots[snapshot]
}

// find returns the index of the first entry that is not less than key, and whether it is equal.
func (m *model) find(entries []entry, key []byte) (int, bool) {
	i := sort.Search(len(entries), func(i int) bool { return m.compare(entries[i].key, key) >= 0 })
	return i, i < len(entries) && m.compare(entries[i].key, key) == 0
}

func (m *model) write(w Write) {
	if m.shared {
		m.entries, m.shared = slices.Clone(m.entries), false
	}
	i, found := m.find(m.entries, w.Key)
	switch {
	case w.Delete && found:
		m.entries = slices.Delete(m.entries, i, i+1)
	case w.Delete:
	case found:
		m.entries[i].value = w.Value
	default:
		m.entries = slices.Insert(m.entries, i, entry{w.Key, w.Value})
	}
}

// modelIterator is an iterator over the entries within its bounds.
type modelIterator struct {
	m        *model
	all      []entry
	entries  []entry
	at       int // -1: before the first; len(entries): after the last
	keysOnly bool
}

func (m *model) newIterator(entries []entry, o *Op) modelIterator {
	m.shared = true
	it := modelIterator{m: m, all: entries, keysOnly: o.KeysOnly}
	it.SetBounds(o.Key, o.Limit)
	return it
}

func (it *modelIterator) clone(o *Op) modelIterator {
	if !o.Same {
		return it.m.newIterator(it.all, o)
	}
	c := *it
	c.at = -1
	return c
}

func (it *modelIterator) SetBounds(lower, upper []byte) {
	low, high := 0, len(it.all)
	if lower != nil {
		low, _ = it.m.find(it.all, lower)
	}
	if upper != nil {
		high, _ = it.m.find(it.all, upper)
	}
	it.entries, it.at = it.all[min(low, high):high], -1
}

func (it *modelIterator) to(at int) bool {
	it.at = at
	return it.Valid()
}

func (it *modelIterator) Valid() bool { return it.at >= 0 && it.at < len(it.entries) }
func (it *modelIterator) First() bool { return it.to(0) }
func (it *modelIterator) Last() bool  { return it.to(len(it.entries) - 1) }
func (it *modelIterator) Next() bool  { return it.to(min(it.at+1, len(it.entries))) }
func (it *modelIterator) Prev() bool  { return it.to(max(it.at-1, -1)) }

func (it *modelIterator) SeekGE(key []byte) bool {
	i, _ := it.m.find(it.entries, key)
	return it.to(i)
}

func (it *modelIterator) SeekLT(key []byte) bool {
	i, _ := it.m.find(it.entries, key)
	return it.to(i - 1)
}

func (it *modelIterator) Key() []byte { return it.entries[it.at].key }
func (it *modelIterator) Err() error  { return nil }

func (it *modelIterator) Value() []byte {
	if it.keysOnly {
		return nil
	}
	return it.entries[it.at].value
}
