package db

import (
	"cmp"
	"iter"
)

// All returns a sequence over all keys and values within the bounds, for a range loop. The slices are valid until the
// loop's next round and must not be modified, as those of Key and Value. After the loop, Err says whether the loop saw
// everything. The caller still closes the iterator; DB.All does both in one call:
//
//	it, err := store.NewIterator(nil)
//	if err != nil { … }
//	defer it.Close()
//	for key, value := range it.All() { … }
//	return it.Err()
func (i *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := i.First(); ok && i.give(yield); ok = i.Next() {
		}
	}
}

// Backward is All from the last key to the first.
func (i *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := i.Last(); ok && i.give(yield); ok = i.Prev() {
		}
	}
}

// give yields the present entry, unless its value cannot be read.
func (i *Iterator) give(yield func(key, value []byte) bool) bool {
	value := i.Value()
	return i.Valid() && yield(i.Key(), value)
}

// All returns a sequence over all keys and values within the bounds, for a range loop, and a function to call after the
// loop: it returns the first error that ended a loop early, nil if there was none. The slices are valid until the
// loop's next round and must not be modified, as those of Iterator.Value. Nothing has to be closed: each loop has an
// iterator of its own, which shows the database at the loop's beginning and is closed at its end, also after break,
// return or a panic. A walk over a prefix is one call:
//
//	entries, failed := store.All(db.PrefixBounds([]byte("order/")))
//	for key, value := range entries { … }
//	return failed()
//
// The sequence is used by one goroutine at a time. Callers of iter.Pull2 must call its stop.
func (d *DB) All(o *IterOptions) (entries iter.Seq2[[]byte, []byte], err func() error) {
	return loop(d, o, (*Iterator).All)
}

// Backward is All from the last key to the first.
func (d *DB) Backward(o *IterOptions) (entries iter.Seq2[[]byte, []byte], err func() error) {
	return loop(d, o, (*Iterator).Backward)
}

// All is DB.All as of the snapshot.
func (s *Snapshot) All(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(s, o, (*Iterator).All)
}

// Backward is DB.Backward as of the snapshot.
func (s *Snapshot) Backward(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(s, o, (*Iterator).Backward)
}

// All is DB.All of what NewIterator shows.
func (t *Transaction) All(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(t, o, (*Iterator).All)
}

// Backward is DB.Backward of what NewIterator shows.
func (t *Transaction) Backward(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(t, o, (*Iterator).Backward)
}

// All is DB.All.
func (n *Namespace) All(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(n, o, (*Iterator).All)
}

// Backward is DB.Backward.
func (n *Namespace) Backward(o *IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return loop(n, o, (*Iterator).Backward)
}

// loop is All of a reader. It is not inlined, so that stack traces name it: see callSite.
//
//go:noinline
func loop(r Reader, o *IterOptions, walk func(*Iterator) iter.Seq2[[]byte, []byte]) (iter.Seq2[[]byte, []byte], func() error) {
	var failed error // the first, by any loop
	return func(yield func(key, value []byte) bool) {
		it, err := r.NewIterator(o)
		failed = cmp.Or(failed, err)
		if err != nil {
			return
		}
		defer func() { failed = cmp.Or(failed, it.Err(), it.Close()) }() // Close leaves out ErrClosed
		walk(it)(yield)
	}, func() error { return failed }
}
