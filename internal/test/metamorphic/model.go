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
	now       int     // in milliseconds
	load      []entry // written, but not committed; a nil value is a deletion
	snapshots [slots]moment
	txn       *modelTxn
	iterators [slots]modelIterator
}

type entry struct {
	key, value []byte
	expires    int // 0: never
}

// moment is what a reader sees.
type moment struct {
	entries []entry
	now     int
}

func (m moment) alive(e *entry) bool { return e.expires == 0 || m.now < e.expires }

func newModel(h *History) *model { return &model{compare: h.Comparer.Compare} }

// do appends the answer to dst.
func (m *model) do(dst []byte, o *Op) []byte {
	switch o.Kind {
	case Put, Delete, Apply, Ingest, DeleteRange, Contend, NewLoad, Sweep:
		if m.readOnly {
			return append(dst, answerReadOnly...)
		}
		m.change(o)
	case CommitLoad:
		for _, e := range m.load {
			m.write(e)
		}
	case GetTTL:
		return m.getTTL(dst, o)
	case Swap:
		return m.swap(dst, o)
	case Tick:
		m.now += o.Of
	case Get, Has, MultiGet:
		return m.look(dst, o)
	case NewTxn:
		m.begin(o.Same)
	case WriteTxn:
		m.txn.write(o.Batch)
	case CommitTxn:
		return append(dst, m.commit()...)
	case DropTxn:
		m.txn = nil
	case NewSnapshot:
		m.snapshots[o.Slot], m.shared = m.view(-1), true
	case NewIterator:
		m.iterators[o.Slot] = m.newIterator(m.walk(o.Of), o)
	case CloneIterator:
		m.iterators[o.Slot] = m.iterators[o.Of].clone(o)
	case Loop:
		return m.loop(dst, o)
	case Move:
		return appendMoves(dst, &m.iterators[o.Slot], o.Moves)
	case Reopen, Crash, OpenReadOnly:
		m.readOnly = o.Kind == OpenReadOnly
	case Finish:
		return append(dst, answerSound...)
	}
	return append(dst, answerDone...)
}

// change makes the writes of an operation, or notes those of a load.
func (m *model) change(o *Op) {
	switch o.Kind {
	case Put, Delete, Apply:
		for _, w := range writesOf(o) {
			if w.Range {
				m.deleteRange(w.Key, w.Limit)
			} else {
				m.write(m.entryOf(w))
			}
		}
	case Ingest:
		for _, w := range o.Batch {
			m.write(m.entryOf(w))
		}
	case DeleteRange:
		m.deleteRange(o.Key, o.Limit)
	case Contend:
		if o.Batch == nil {
			m.deleteRange(o.Key, o.Limit)
		}
		for _, w := range o.Batch {
			m.write(m.entryOf(w))
		}
		m.write(m.entryOf(Write{Key: o.Keys[0], Value: o.Value}))
	case Sweep:
		m.sweep()
	case NewLoad:
		m.load = nil
		for _, w := range o.Batch {
			m.load = append(m.load, m.entryOf(w))
		}
	}
}

// look appends the answer of a Get, a Has or a MultiGet.
func (m *model) look(dst []byte, o *Op) []byte {
	if o.Slot == inTxn {
		m.txn.read(o)
	}
	if o.Kind == MultiGet {
		values := make([][]byte, len(o.Keys))
		for i, key := range o.Keys {
			if value, found := m.get(m.view(o.Slot), key); found {
				values[i] = append([]byte{}, value...)
			}
		}
		return appendValues(dst, values)
	}
	value, found := m.get(m.view(o.Slot), o.Key)
	switch {
	case o.Kind == Has:
		return appendBool(dst, found)
	case !found:
		return append(dst, answerNotFound...)
	}
	return appendShown(dst, value)
}

// loop appends what an iterator shows on its way forward and back.
func (m *model) loop(dst []byte, o *Op) []byte {
	it := m.newIterator(m.walk(o.Of), o)
	for _, step := range []func() bool{it.Next, it.Prev} {
		for n := 0; n < max(o.Count, 1) && step(); n++ {
			dst = appendEntry(dst, it.Key(), it.Value())
		}
		it.at = len(it.entries)
	}
	return dst
}

// writesOf returns a writing operation as a batch.
func writesOf(o *Op) []Write {
	if o.Kind == Apply {
		return o.Batch
	}
	return []Write{{Key: o.Key, Value: o.Value, Delete: o.Kind == Delete, TTL: o.TTL}}
}

// entryOf returns a write as an entry.
func (m *model) entryOf(w Write) entry {
	e := entry{key: w.Key}
	if !w.Delete {
		e.value = append([]byte{}, w.Value...)
	}
	if w.TTL > 0 {
		e.expires = m.now + w.TTL
	}
	return e
}

func (m *model) view(snapshot int) moment {
	switch snapshot {
	case -1:
		return moment{m.entries, m.now}
	case inTxn:
		return m.txn.shows.view(-1)
	}
	return m.snapshots[snapshot]
}

// walk is view for an iterator.
func (m *model) walk(snapshot int) moment {
	if snapshot == inTxn {
		m.txn.walked = true
	}
	return m.view(snapshot)
}

// get returns the value of key, unless it has expired.
func (m *model) get(at moment, key []byte) (value []byte, found bool) {
	i, found := m.find(at.entries, key)
	if !found || !at.alive(&at.entries[i]) {
		return nil, false
	}
	return at.entries[i].value, true
}

// find returns the index of the first entry that is not less than key, and whether it is equal.
func (m *model) find(entries []entry, key []byte) (int, bool) {
	i := sort.Search(len(entries), func(i int) bool { return m.compare(entries[i].key, key) >= 0 })
	return i, i < len(entries) && m.compare(entries[i].key, key) == 0
}

func (m *model) write(e entry) {
	if m.shared {
		m.entries, m.shared = slices.Clone(m.entries), false
	}
	m.txn.note(func(key []byte) bool { return m.compare(key, e.key) == 0 })
	i, found := m.find(m.entries, e.key)
	switch {
	case e.value == nil && found:
		m.entries = slices.Delete(m.entries, i, i+1)
	case e.value == nil:
	case found:
		m.entries[i] = e
	default:
		m.entries = slices.Insert(m.entries, i, e)
	}
}

// deleteRange deletes the keys from lower to upper, without upper; nil means no bound.
func (m *model) deleteRange(lower, upper []byte) {
	m.txn.note(func(key []byte) bool {
		return (lower == nil || m.compare(lower, key) <= 0) && (upper == nil || m.compare(key, upper) < 0)
	})
	low, high := 0, len(m.entries)
	if lower != nil {
		low, _ = m.find(m.entries, lower)
	}
	if upper != nil {
		high, _ = m.find(m.entries, upper)
	}
	if low < high {
		m.entries = slices.Concat(m.entries[:low], m.entries[high:]) // a copy: readers may have the old ones
		m.shared = false
	}
}

// modelIterator is an iterator over the entries within its bounds.
type modelIterator struct {
	m        *model
	all      []entry
	entries  []entry
	at       int // -1: before the first; len(entries): after the last
	keysOnly bool
	pinned   bool // to a snapshot or a transaction

	lower, upper []byte
}

func (m *model) newIterator(view moment, o *Op) modelIterator {
	it := modelIterator{m: m, keysOnly: o.KeysOnly, pinned: o.Of >= 0}
	it.show(view, o.Key, o.Limit)
	return it
}

func (it *modelIterator) show(view moment, lower, upper []byte) {
	it.all = nil
	for i := range view.entries {
		if view.alive(&view.entries[i]) {
			it.all = append(it.all, view.entries[i])
		}
	}
	it.SetBounds(lower, upper)
}

// Refresh moves it to the present moment, unless it is of a snapshot or a transaction.
func (it *modelIterator) Refresh() {
	if it.at = -1; !it.pinned {
		it.show(it.m.view(-1), it.lower, it.upper)
	}
}

func (it *modelIterator) clone(o *Op) modelIterator {
	c := *it
	c.at = -1
	if !o.Same {
		c.keysOnly = o.KeysOnly
		c.SetBounds(o.Key, o.Limit)
	}
	return c
}

func (it *modelIterator) SetBounds(lower, upper []byte) {
	it.lower, it.upper = lower, upper
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
