package leveldb

import (
	"runtime"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// dbIter is an iterator of a DB, a snapshot or a transaction. Keys and values are copied when they are asked for, into
// memory that the next movement reuses: programs keep slices after Release, or change them, and both work in goleveldb.
type dbIter struct {
	d        *DB
	it       *db.Iterator
	err      error
	releaser util.Releaser
	released bool

	hasKey, hasValue bool
	key, value       []byte
}

// iterators is what NewIterator of SieveDB has in common.
type iterators interface {
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

func (d *DB) newIterator(from iterators, slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	var o *db.IterOptions
	if slice != nil || ro.GetDontFillCache() {
		o = &db.IterOptions{NoFillCache: ro.GetDontFillCache()}
		if slice != nil {
			o.LowerBound, o.UpperBound = slice.Start, slice.Limit
		}
	}
	it, err := from.NewIterator(o)
	if err != nil {
		return iterator.NewEmptyIterator(convert(err))
	}
	i := &dbIter{d: d, it: it, key: []byte{}, value: []byte{}}
	d.aliveIters.Add(1)
	runtime.SetFinalizer(i, (*dbIter).Release)
	return i
}

// moved notes that the iterator is at a pair, or why it is not.
func (i *dbIter) moved(ok bool) bool {
	i.hasKey, i.hasValue = false, false
	if !ok {
		if err := i.it.Err(); err != nil {
			i.err = convert(err)
		}
	}
	return ok
}

// begin reports whether the iterator may move.
func (i *dbIter) begin() bool {
	if i.released && i.err == nil {
		i.err = ErrIterReleased
	}
	return i.err == nil
}

func (i *dbIter) First() bool { return i.begin() && i.moved(i.it.First()) }

func (i *dbIter) Last() bool { return i.begin() && i.moved(i.it.Last()) }

func (i *dbIter) Seek(key []byte) bool { return i.begin() && i.moved(i.it.SeekGE(key)) }

func (i *dbIter) Next() bool { return i.begin() && i.moved(i.it.Next()) }

func (i *dbIter) Prev() bool { return i.begin() && i.moved(i.it.Prev()) }

func (i *dbIter) Valid() bool { return i.err == nil && !i.released && i.it.Valid() }

func (i *dbIter) Key() []byte {
	if i.hasKey {
		return i.key
	}
	if !i.Valid() {
		return nil
	}
	i.key, i.hasKey = append(i.key[:0], i.it.Key()...), true
	return i.key
}

func (i *dbIter) Value() []byte {
	if i.hasValue {
		return i.value
	}
	if !i.Valid() {
		return nil
	}
	value := i.it.Value()
	if !i.it.Valid() { // it is apart from its key and cannot be read
		i.moved(false)
		return nil
	}
	i.value, i.hasValue = append(i.value[:0], value...), true
	return i.value
}

func (i *dbIter) Error() error { return i.err }

func (i *dbIter) Release() {
	if i.released {
		return
	}
	runtime.SetFinalizer(i, nil)
	if r := i.releaser; r != nil {
		i.releaser = nil
		r.Release()
	}
	i.released, i.hasKey, i.hasValue = true, false, false
	_ = i.it.Close() // its error is that of the last movement
	i.it, i.key, i.value = nil, nil, nil
	i.d.aliveIters.Add(-1)
	i.d = nil
}

func (i *dbIter) SetReleaser(releaser util.Releaser) {
	switch {
	case i.released:
		panic(util.ErrReleased)
	case i.releaser != nil && releaser != nil:
		panic(util.ErrHasReleaser)
	}
	i.releaser = releaser
}
