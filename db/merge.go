package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// mergingIter merges runs into one order. It is a base.Iterator. Internal keys
// are unique over all runs of a database; where they are not, in a repair, equal
// ones come one behind the other.
//
// The valid children stand in a heap: the one with the smallest key on top going
// forward, with the greatest going backward. Turning round moves the other
// children to the other side of the present key.
type mergingIter struct {
	cmp      *base.Comparer
	children []base.Iterator
	heap     []*mergingChild
	slots    []mergingChild
	reverse  bool
	err      error
}

// mergingChild keeps its key at hand: asking the iterator for it at each
// comparison would cost an interface call.
type mergingChild struct {
	it  base.Iterator
	key []byte
}

func newMergingIter(cmp *base.Comparer, children []base.Iterator) *mergingIter {
	m := &mergingIter{cmp: cmp, children: children, slots: make([]mergingChild, len(children)), heap: make([]*mergingChild, 0, len(children))}
	for i, it := range children {
		m.slots[i].it = it
	}
	return m
}

// rebuild moves each child with move and makes the heap of those that are valid.
func (m *mergingIter) rebuild(reverse bool, move func(base.Iterator) bool) bool {
	m.reverse = reverse
	m.heap = m.heap[:0]
	if m.err != nil {
		return false
	}
	for i := range m.slots {
		c := &m.slots[i]
		if move(c.it) {
			c.key = c.it.Key()
			m.heap = append(m.heap, c)
		} else if err := c.it.Err(); err != nil {
			return m.fail(err)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return len(m.heap) > 0
}

func (m *mergingIter) fail(err error) bool {
	m.err = err
	m.heap = m.heap[:0]
	return false
}

// before reports whether a stands above b in the heap.
func (m *mergingIter) before(a, b *mergingChild) bool {
	v := m.cmp.CompareInternal(a.key, b.key)
	if m.reverse {
		return v > 0
	}
	return v < 0
}

func (m *mergingIter) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(m.heap) {
			return
		}
		if child+1 < len(m.heap) && m.before(m.heap[child+1], m.heap[child]) {
			child++
		}
		if !m.before(m.heap[child], m.heap[i]) {
			return
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}

// step restores the heap after the top child moved; ok says whether it is valid.
func (m *mergingIter) step(ok bool) bool {
	top := m.heap[0]
	if ok {
		top.key = top.it.Key()
	} else {
		if err := top.it.Err(); err != nil {
			return m.fail(err)
		}
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		if last == 0 {
			return false
		}
	}
	m.down(0)
	return true
}

func (m *mergingIter) First() bool { return m.rebuild(false, base.Iterator.First) }
func (m *mergingIter) Last() bool  { return m.rebuild(true, base.Iterator.Last) }

func (m *mergingIter) SeekGE(ikey []byte) bool {
	return m.rebuild(false, func(it base.Iterator) bool { return it.SeekGE(ikey) })
}

func (m *mergingIter) SeekLT(ikey []byte) bool {
	return m.rebuild(true, func(it base.Iterator) bool { return it.SeekLT(ikey) })
}

func (m *mergingIter) Next() bool {
	if m.reverse {
		// The other children stand before the present key, or at their end; the
		// first key behind the present one is what is wanted of each.
		key := append([]byte(nil), m.heap[0].key...)
		top := m.heap[0].it
		return m.rebuild(false, func(it base.Iterator) bool {
			if it == top {
				return it.Next()
			}
			return it.SeekGE(key)
		})
	}
	return m.step(m.heap[0].it.Next())
}

func (m *mergingIter) Prev() bool {
	if !m.reverse {
		key := append([]byte(nil), m.heap[0].key...)
		top := m.heap[0].it
		return m.rebuild(true, func(it base.Iterator) bool {
			if it == top {
				return it.Prev()
			}
			return it.SeekLT(key)
		})
	}
	return m.step(m.heap[0].it.Prev())
}

func (m *mergingIter) Valid() bool   { return len(m.heap) > 0 }
func (m *mergingIter) Key() []byte   { return m.heap[0].key }
func (m *mergingIter) Value() []byte { return m.heap[0].it.Value() }
func (m *mergingIter) Err() error    { return m.err }

func (m *mergingIter) Close() error {
	m.heap = m.heap[:0]
	for _, it := range m.children {
		if err := it.Close(); err != nil && m.err == nil {
			m.err = err
		}
	}
	return m.err
}

// levelIter walks the tables of one level below level 0, or of any list of
// tables in order, opening one at a time. It is a base.Iterator.
type levelIter struct {
	tables  *tableCache
	cmp     *base.Comparer
	files   []*manifest.FileMeta
	options sstable.IterOptions

	index int // of the table that it is at; -1 or len(files) at the ends
	it    base.Iterator
	err   error
}

func newLevelIter(tables *tableCache, cmp *base.Comparer, files []*manifest.FileMeta, o sstable.IterOptions) *levelIter {
	return &levelIter{tables: tables, cmp: cmp, files: files, options: o, index: -1}
}

// openTableIter returns an iterator of f that keeps its table open.
func openTableIter(tables *tableCache, f *manifest.FileMeta, o sstable.IterOptions) (base.Iterator, error) {
	for {
		r, err := tables.get(f)
		if err != nil {
			return nil, err
		}
		it, err := r.NewIter(o)
		if err == sstable.ErrReaderClosed {
			continue // the open-table cache was faster; the file is there
		}
		if err != nil {
			return nil, err
		}
		return it, nil
	}
}

// open makes table i the present one. False at the ends and after an error.
func (l *levelIter) open(i int) bool {
	if l.err != nil {
		return false
	}
	if l.it != nil && i == l.index {
		return true
	}
	if l.it != nil {
		l.err = l.it.Close()
		l.it = nil
	}
	l.index = i
	if l.err != nil || i < 0 || i >= len(l.files) {
		return false
	}
	l.it, l.err = openTableIter(l.tables, l.files[i], l.options)
	if l.err != nil {
		l.it = nil
	}
	return l.err == nil
}

// forward returns ok, or moves on to the first entry of a later table.
func (l *levelIter) forward(ok bool) bool {
	for !ok {
		if l.failed() || !l.open(l.index+1) {
			return false
		}
		ok = l.it.First()
	}
	return true
}

func (l *levelIter) backward(ok bool) bool {
	for !ok {
		if l.failed() || !l.open(l.index-1) {
			return false
		}
		ok = l.it.Last()
	}
	return true
}

func (l *levelIter) failed() bool {
	if l.err == nil && l.it != nil {
		l.err = l.it.Err()
	}
	return l.err != nil
}

func (l *levelIter) First() bool { return l.open(0) && l.forward(l.it.First()) }
func (l *levelIter) Last() bool  { return l.open(len(l.files)-1) && l.backward(l.it.Last()) }

// find returns the index of the first table whose largest key is >= ikey.
func (l *levelIter) find(ikey []byte) int {
	lo, hi := 0, len(l.files)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.cmp.CompareInternal(l.files[mid].Largest, ikey) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (l *levelIter) SeekGE(ikey []byte) bool {
	return l.open(l.find(ikey)) && l.forward(l.it.SeekGE(ikey))
}

func (l *levelIter) SeekLT(ikey []byte) bool {
	// The last key before ikey is in the table that could hold ikey, or else at
	// the end of the one before.
	i := min(l.find(ikey), len(l.files)-1)
	return l.open(i) && l.backward(l.it.SeekLT(ikey))
}

func (l *levelIter) Next() bool { return l.forward(l.it.Next()) }
func (l *levelIter) Prev() bool { return l.backward(l.it.Prev()) }

func (l *levelIter) Valid() bool   { return l.err == nil && l.it != nil && l.it.Valid() }
func (l *levelIter) Key() []byte   { return l.it.Key() }
func (l *levelIter) Value() []byte { return l.it.Value() }

func (l *levelIter) Err() error {
	l.failed()
	return l.err
}

func (l *levelIter) Close() error {
	if l.it != nil {
		if err := l.it.Close(); err != nil && l.err == nil {
			l.err = err
		}
		l.it = nil
	}
	return l.err
}
