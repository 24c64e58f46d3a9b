package iterator

import "github.com/syndtr/goleveldb/leveldb/util"

// BasicArray is sorted.
type BasicArray interface {
	Len() int
	// Search returns the least index whose key is not before key, or Len.
	Search(key []byte) int
}

// Array is a sorted array of pairs.
type Array interface {
	BasicArray
	Index(i int) (key, value []byte)
}

// ArrayIndexer is a sorted array of iterators.
type ArrayIndexer interface {
	BasicArray
	Get(i int) Iterator
}

// NewArrayIterator returns an iterator over the pairs of array.
func NewArrayIterator(array Array) Iterator {
	return &arrayIterator{position: position{array: array, at: -1}, array: array, loaded: -1}
}

// NewArrayIndexer returns an iterator over the iterators of array.
func NewArrayIndexer(array ArrayIndexer) IteratorIndexer {
	return &arrayIndexer{position: position{array: array, at: -1}, array: array}
}

// position moves over the indexes of an array, from -1 to its length.
type position struct {
	util.BasicReleaser
	array BasicArray
	at    int
	err   error
}

func (p *position) Valid() bool { return !p.Released() && p.at >= 0 && p.at < p.array.Len() }

func (p *position) Error() error { return p.err }

// moveTo moves to an index, or next to the nearest one.
func (p *position) moveTo(index func(length int) int) bool {
	if p.Released() {
		p.err = ErrIterReleased
		return false
	}
	length := p.array.Len()
	p.at = min(max(index(length), -1), length)
	return p.at >= 0 && p.at < length
}

func (p *position) First() bool {
	return p.moveTo(func(length int) int {
		if length == 0 {
			return -1
		}
		return 0
	})
}

func (p *position) Last() bool {
	return p.moveTo(func(length int) int { return max(length-1, 0) })
}

func (p *position) Seek(key []byte) bool {
	return p.moveTo(func(length int) int {
		if length == 0 {
			return 0
		}
		return p.array.Search(key)
	})
}

func (p *position) Next() bool { return p.moveTo(func(int) int { return p.at + 1 }) }

func (p *position) Prev() bool { return p.moveTo(func(int) int { return p.at - 1 }) }

type arrayIterator struct {
	position
	array      Array
	loaded     int // the index of key and value
	key, value []byte
}

func (i *arrayIterator) load() {
	if i.loaded == i.at {
		return
	}
	i.loaded, i.key, i.value = i.at, nil, nil
	if i.Valid() {
		i.key, i.value = i.array.Index(i.at)
	}
}

func (i *arrayIterator) Key() []byte {
	i.load()
	return i.key
}

func (i *arrayIterator) Value() []byte {
	i.load()
	return i.value
}

type arrayIndexer struct {
	position
	array ArrayIndexer
}

func (i *arrayIndexer) Get() Iterator {
	if !i.Valid() {
		return nil
	}
	return i.array.Get(i.at)
}
