package iterator

import (
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// IteratorIndexer is an iterator over iterators.
type IteratorIndexer interface {
	CommonIterator
	// Get returns a new iterator over the data of the present position, or nil.
	Get() Iterator
}

// NewIndexedIterator returns an iterator over the pairs of all iterators of index, in order. Unless
// strict is set, data that is corrupted (errors.IsCorrupted) is skipped.
func NewIndexedIterator(index IteratorIndexer, strict bool) Iterator {
	return &indexedIterator{index: index, strict: strict}
}

type indexedIterator struct {
	util.BasicReleaser
	index  IteratorIndexer
	data   Iterator // nil: index is between its first and its last position, or beyond
	strict bool
	err    error
	onErr  func(error)
}

func (i *indexedIterator) SetErrorCallback(f func(err error)) { i.onErr = f }

func (i *indexedIterator) report(err error) {
	if i.onErr != nil {
		i.onErr(err)
	}
}

// usable reports whether the iterator may move.
func (i *indexedIterator) usable() bool {
	if i.err == nil && i.Released() {
		i.err = ErrIterReleased
	}
	return i.err == nil
}

// setData replaces the data by that of the index's position, if ok says that it has one.
func (i *indexedIterator) setData(ok bool) bool {
	if i.data != nil {
		i.data.Release()
		i.data = nil
	}
	if ok {
		i.data = i.index.Get()
		return true
	}
	if err := i.index.Error(); err != nil {
		i.report(err)
		i.err = err
	}
	return false
}

// failed reports whether the data has an error that ends the iteration.
func (i *indexedIterator) failed() bool {
	err := i.data.Error()
	if err == nil {
		return false
	}
	i.report(err)
	if i.strict || !errors.IsCorrupted(err) {
		i.err = err
	}
	return i.err != nil
}

func (i *indexedIterator) forward() bool {
	for i.data == nil || !i.data.Next() {
		if i.data != nil && i.failed() || !i.setData(i.index.Next()) {
			return false
		}
	}
	return true
}

func (i *indexedIterator) backward() bool {
	at := i.data != nil && i.data.Prev()
	for !at {
		if i.data != nil && i.failed() || !i.setData(i.index.Prev()) {
			return false
		}
		at = i.data.Last()
	}
	return true
}

func (i *indexedIterator) First() bool {
	return i.usable() && i.setData(i.index.First()) && i.forward()
}

func (i *indexedIterator) Last() bool {
	if !i.usable() || !i.setData(i.index.Last()) {
		return false
	}
	return i.data.Last() || !i.failed() && i.backward()
}

func (i *indexedIterator) Seek(key []byte) bool {
	if !i.usable() || !i.setData(i.index.Seek(key)) {
		return false
	}
	return i.data.Seek(key) || !i.failed() && i.forward()
}

func (i *indexedIterator) Next() bool { return i.usable() && i.forward() }

func (i *indexedIterator) Prev() bool { return i.usable() && i.backward() }

func (i *indexedIterator) Valid() bool { return i.data != nil && i.data.Valid() }

func (i *indexedIterator) Key() []byte {
	if i.data == nil {
		return nil
	}
	return i.data.Key()
}

func (i *indexedIterator) Value() []byte {
	if i.data == nil {
		return nil
	}
	return i.data.Value()
}

func (i *indexedIterator) Error() error {
	if i.err != nil {
		return i.err
	}
	return i.index.Error()
}

func (i *indexedIterator) Release() {
	if i.data != nil {
		i.data.Release()
		i.data = nil
	}
	i.index.Release()
	i.BasicReleaser.Release()
}
