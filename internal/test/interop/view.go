package interop

import (
	"bytes"
	"errors"
)

// cursor is what the iterators of SieveDB and goleveldb have in common; Seek is SieveDB's SeekGE.
type cursor interface {
	First() bool
	Last() bool
	Seek(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	Key() []byte
	Value() []byte
}

// view is a View by single lookups and by iterators.
type view struct {
	get      func(key []byte) ([]byte, error)
	notFound error
	// open returns an iterator, and the function that closes it and returns its error.
	open func() (it cursor, done func() error, err error)
}

func (v view) Get(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := v.get(key)
		if err == nil {
			values[i] = append([]byte{}, value...)
		} else if !errors.Is(err, v.notFound) {
			return nil, err
		}
	}
	return values, nil
}

func (v view) Scan(backward bool) (entries []Entry, err error) {
	it, done, err := v.open()
	if err != nil {
		return nil, err
	}
	start, step := it.First, it.Next
	if backward {
		start, step = it.Last, it.Prev
	}
	for ok := start(); ok; ok = step() {
		entries = append(entries, entryAt(it))
	}
	return entries, done()
}

func (v view) Seek(keys [][]byte) ([]*Entry, error) {
	it, done, err := v.open()
	if err != nil {
		return nil, err
	}
	entries := make([]*Entry, len(keys))
	for i, key := range keys {
		if it.Seek(key) {
			e := entryAt(it)
			entries[i] = &e
		}
	}
	return entries, done()
}

func entryAt(it cursor) Entry { return Entry{bytes.Clone(it.Key()), bytes.Clone(it.Value())} }
