package iterator

import (
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// NewMergedIterator returns an iterator over the pairs of all iters, in the order of cmp. No two may
// have the same key. Unless strict is set, iterators that are corrupted (errors.IsCorrupted) end
// early. The result releases iters with itself.
func NewMergedIterator(iters []Iterator, cmp comparer.Comparer, strict bool) Iterator {
	return &mergedIterator{iters: iters, cmp: cmp, strict: strict}
}

// place is where an iterator is.
type place int

const (
	beforeFirst place = iota
	afterLast
	goingForward // at a pair; the other iterators are after it
	goingBack    // at a pair; the other iterators are before it
)

type mergedIterator struct {
	util.BasicReleaser
	iters  []Iterator
	cmp    comparer.Comparer
	strict bool

	place   place
	current int // the iterator at the pair
	err     error
	onErr   func(error)
}

func (m *mergedIterator) SetErrorCallback(f func(err error)) { m.onErr = f }

func (m *mergedIterator) Error() error { return m.err }

func (m *mergedIterator) usable() bool {
	if m.err == nil && m.Released() {
		m.err = ErrIterReleased
	}
	return m.err == nil
}

// moved notes the result of moving one iterator. It returns false if that ends the iteration.
func (m *mergedIterator) moved(iter Iterator, ok bool) bool {
	if ok {
		if iter.Key() == nil {
			panic("leveldb/iterator: nil key")
		}
		return true
	}
	err := iter.Error()
	if err == nil {
		return true
	}
	if m.onErr != nil {
		m.onErr(err)
	}
	if m.strict || !errors.IsCorrupted(err) {
		m.err = err
	}
	return m.err == nil
}

// moveAll moves all iterators, except the current one if others is set, and then to the nearest pair.
func (m *mergedIterator) moveAll(others bool, towards place, move func(Iterator) bool) bool {
	for n, iter := range m.iters {
		if others && n == m.current {
			continue
		}
		if !m.moved(iter, move(iter)) {
			return false
		}
	}
	return others || m.pick(towards)
}

// pick makes the least pair of all iterators the current one or, going back, the greatest.
func (m *mergedIterator) pick(towards place) bool {
	var best []byte
	found := false
	for n, iter := range m.iters {
		if !iter.Valid() {
			continue
		}
		key := iter.Key()
		if found {
			c := m.cmp.Compare(key, best)
			if towards == goingForward && c >= 0 || towards == goingBack && c <= 0 {
				continue
			}
		}
		best, found, m.current = key, true, n
	}
	switch {
	case found:
		m.place = towards
	case towards == goingForward:
		m.place = afterLast
	default:
		m.place = beforeFirst
	}
	return found
}

func (m *mergedIterator) First() bool {
	return m.usable() && m.moveAll(false, goingForward, Iterator.First)
}

func (m *mergedIterator) Last() bool {
	return m.usable() && m.moveAll(false, goingBack, Iterator.Last)
}

func (m *mergedIterator) Seek(key []byte) bool {
	return m.usable() && m.moveAll(false, goingForward, func(i Iterator) bool { return i.Seek(key) })
}

func (m *mergedIterator) Next() bool {
	if !m.usable() || m.place == afterLast {
		return false
	}
	if m.place == beforeFirst {
		return m.First()
	}
	if m.place == goingBack && !m.turn(func(i Iterator, key []byte) bool { return i.Seek(key) }) {
		return false
	}
	iter := m.iters[m.current]
	return m.moved(iter, iter.Next()) && m.pick(goingForward)
}

func (m *mergedIterator) Prev() bool {
	if !m.usable() || m.place == beforeFirst {
		return false
	}
	if m.place == afterLast {
		return m.Last()
	}
	before := func(i Iterator, key []byte) bool {
		if i.Seek(key) {
			return i.Prev()
		}
		return i.Error() == nil && i.Last()
	}
	if m.place == goingForward && !m.turn(before) {
		return false
	}
	iter := m.iters[m.current]
	return m.moved(iter, iter.Prev()) && m.pick(goingBack)
}

// turn moves all iterators but the current one to the other side of its key.
func (m *mergedIterator) turn(move func(i Iterator, key []byte) bool) bool {
	key := append([]byte{}, m.iters[m.current].Key()...)
	return m.moveAll(true, 0, func(i Iterator) bool { return move(i, key) })
}

func (m *mergedIterator) Valid() bool {
	return m.err == nil && !m.Released() && m.place >= goingForward
}

func (m *mergedIterator) Key() []byte {
	if !m.Valid() {
		return nil
	}
	return m.iters[m.current].Key()
}

func (m *mergedIterator) Value() []byte {
	if !m.Valid() {
		return nil
	}
	return m.iters[m.current].Value()
}

func (m *mergedIterator) Release() {
	if m.Released() {
		return
	}
	for _, iter := range m.iters {
		iter.Release()
	}
	m.iters = nil
	m.BasicReleaser.Release()
}
