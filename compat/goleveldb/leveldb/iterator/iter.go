// Package iterator has the contract of iterators, and iterators over arrays and over other iterators.
//
// A new iterator is before the first pair: Next moves to the first one. After the last pair, Prev
// moves to it. An iterator is used by one goroutine at a time, and must be released.
package iterator

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb/util"
)

// ErrIterReleased is the error of an iterator of this package that is moved after its release.
var ErrIterReleased = errors.New("leveldb/iterator: iterator released")

// IteratorSeeker moves. Each movement reports whether the iterator is at a pair afterwards.
type IteratorSeeker interface {
	First() bool
	Last() bool
	// Seek moves to the first pair whose key is not before key.
	Seek(key []byte) bool
	Next() bool
	Prev() bool
}

// CommonIterator is an iterator without keys and values.
type CommonIterator interface {
	IteratorSeeker
	util.Releaser
	util.ReleaseSetter

	// Valid reports whether the iterator is at a pair.
	Valid() bool
	// Error returns the first failure. The end is none.
	Error() error
}

// Iterator walks pairs of keys and values in the order of keys.
type Iterator interface {
	CommonIterator

	// Key returns the key, nil if the iterator is not at a pair. It is valid until the next movement.
	Key() []byte
	// Value returns the value, nil if the iterator is not at a pair. It is valid until the next movement.
	Value() []byte
}

// ErrorCallbackSetter is an iterator that reports failures, also those that it skips.
type ErrorCallbackSetter interface {
	// SetErrorCallback sets the function to call; nil: none.
	SetErrorCallback(f func(err error))
}

// NewEmptyIterator returns an iterator without pairs whose Error is err.
func NewEmptyIterator(err error) Iterator { return &emptyIterator{err: err} }

type emptyIterator struct {
	util.BasicReleaser
	err error
}

func (i *emptyIterator) move() bool {
	if i.err == nil && i.Released() {
		i.err = ErrIterReleased
	}
	return false
}

func (i *emptyIterator) First() bool      { return i.move() }
func (i *emptyIterator) Last() bool       { return i.move() }
func (i *emptyIterator) Seek([]byte) bool { return i.move() }
func (i *emptyIterator) Next() bool       { return i.move() }
func (i *emptyIterator) Prev() bool       { return i.move() }
func (i *emptyIterator) Error() error     { return i.err }
func (*emptyIterator) Valid() bool        { return false }
func (*emptyIterator) Key() []byte        { return nil }
func (*emptyIterator) Value() []byte      { return nil }
