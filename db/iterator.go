package db

import (
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/read/scan"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
)

// Iterator walks the keys of the database in order, as they were when it was created. It is used by one goroutine at a
// time and must be closed: until then the files that it may read stay on disk.
//
// An iterator is at a key, before the first key or after the last; with bounds, the first and the last are those within
// them. A new iterator is before the first key, so "for it.Next() { … }" visits every key. Next moves from before the
// first key to it, and stays after the last; Prev moves from after the last key to it, and stays before the first. A
// seek that finds no key leaves the iterator on the side that it searched: SeekGE and First after the last key, SeekLT
// and Last before the first.
//
// Each movement returns whether the iterator is at a key afterwards, as Valid does. After
// false, Err distinguishes a clean end (nil) from a failure. After a failure, and after Close,
// no movement returns true again: an iterator never skips what it could not read.
type Iterator struct {
	cursor scan.Cursor
	db     *DB
	txn    *Transaction // whose reads it records; nil: none
	pinned bool         // it shows the moment of a snapshot or a transaction
}

// NewIterator returns an iterator over what is visible now. The caller closes it. The bounds
// are copied. Nothing is read yet: the first movement that needs an unreadable block fails.
func (d *DB) NewIterator(o *IterOptions) (*Iterator, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	return d.newIterator(o, nil, nil)
}

// newIterator is NewIterator as of at, with a transaction's own writes; both may be nil.
func (d *DB) newIterator(o *IterOptions, at *lookup.At, own *txn.Writes) (*Iterator, error) {
	if own == nil {
		return d.newIteratorOf(o, at, nil)
	}
	return d.newIteratorOf(o, at, func(it *Iterator) { it.cursor.AddWrites(own.Iter()) })
}

// newIteratorOf is newIterator with a function that adds a transaction's own writes; nil means none.
func (d *DB) newIteratorOf(o *IterOptions, at *lookup.At, addOwn func(*Iterator)) (*Iterator, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if o == nil {
		o = &IterOptions{}
	}
	s, seq := d.finder.RefAt(at)
	it := &Iterator{db: d, pinned: at != nil}
	it.cursor.Start(&d.scans, s.Version, seq, d.finder.Time(at))
	if addOwn != nil {
		addOwn(it)
	}
	it.cursor.AddMemtable(s.Mem.Memtable)
	for _, m := range s.Imm {
		it.cursor.AddMemtable(m.Memtable)
	}
	it.cursor.Open((*scan.Options)(o))
	d.opened.Add(it, counters.Iterator, d.opts.TrackOpen)
	return it, nil
}

// First moves to the first key.
func (i *Iterator) First() bool { return i != nil && i.cursor.First() }

// Last moves to the last key.
func (i *Iterator) Last() bool { return i != nil && i.cursor.Last() }

// SeekGE moves to the first key that is >= key, or after the last key if none is. A seek forward
// continues from the iterator's position: a run that is already at or after key does not move, and
// one whose present data block reaches to key searches only there. So a seek to skip keys costs
// less than a seek elsewhere, and from about twenty keys on less than the calls of Next.
func (i *Iterator) SeekGE(key []byte) bool { return i != nil && i.cursor.SeekGE(key) }

// SeekLT moves to the last key that is < key, or before the first key if none is.
func (i *Iterator) SeekLT(key []byte) bool { return i != nil && i.cursor.SeekLT(key) }

// Next moves to the next key: from before the first key to the first, from the last to after it.
func (i *Iterator) Next() bool { return i != nil && i.cursor.Next() }

// Prev moves to the previous key: from after the last key to the last, from the first to before it.
func (i *Iterator) Prev() bool { return i != nil && i.cursor.Prev() }

// Valid reports whether the iterator is at a key.
func (i *Iterator) Valid() bool { return i != nil && i.cursor.Valid() }

// Key returns the key, nil if the iterator is not at one. The slice is valid until the iterator's next movement and
// must not be modified: it may be the database's own memory, as that of Value.
func (i *Iterator) Key() []byte {
	if i == nil {
		return nil
	}
	return i.cursor.Key()
}

// Value returns the value, nil if the iterator is not at a key or shows only keys; an empty value is not nil. A value
// apart from its key (TableOptions.SeparateValues) is read by this call: if that fails, Value returns nil, the iterator
// is not Valid any more, and Err says why, as after DB.Close. The slice is valid until the iterator's next movement and
// must not be modified: it may be the memory of a memtable or of a cached block, where a change would be seen by other
// readers, and be stored. Copy it to change it. Programs that are built with -race, or with the build tag
// sievedb_guard, get an error from the iterator's next movement, from Err and from Close if they have changed it.
func (i *Iterator) Value() []byte {
	if i == nil {
		return nil
	}
	return i.cursor.Value()
}

// Err returns the first failure, nil at a clean end; ErrClosed for a nil Iterator.
func (i *Iterator) Err() error {
	if i == nil {
		return ErrClosed
	}
	return i.cursor.Err()
}

// SetBounds replaces the iterator's bounds and moves it before the first key within them. It still
// shows the same moment. The bounds are copied, so they may be slices of Key or Value; nil means no
// bound. SetBounds reads nothing and costs about as much as NewIterator, without the allocation. An
// iterator that failed stays so, and one that is closed has ErrClosed.
func (i *Iterator) SetBounds(lower, upper []byte) {
	if i != nil {
		i.cursor.SetBounds(lower, upper)
	}
}

// Refresh moves the iterator to the present moment: it shows what a new one would show, within the same bounds, and is
// before its first key. It reads nothing and keeps the iterator's memory and, if no table was added or removed
// meanwhile, its open tables and blocks. The files that only the old moment needs are released. An iterator of a
// snapshot or a transaction keeps its moment, and only moves before its first key. An iterator that failed stays so,
// and one that is closed has ErrClosed.
func (i *Iterator) Refresh() {
	switch {
	case i == nil || i.db == nil:
	case i.pinned || i.db.closed.Load():
		i.cursor.Rewind()
	default:
		s, seq := i.db.finder.RefAt(nil)
		var some [4]*memtable.Memtable
		mems := some[:0]
		if !s.Mem.Empty() {
			mems = append(mems, s.Mem.Memtable)
		}
		for _, m := range s.Imm {
			if !m.Empty() {
				mems = append(mems, m.Memtable)
			}
		}
		i.cursor.Refresh(s.Version, seq, i.db.finder.Time(nil), mems)
	}
}

// Clone returns another iterator over the same moment, which may have passed for everybody else: the clone of an
// iterator of a snapshot or a transaction shows what that iterator shows. o are its options; nil means those of the
// iterator, with its present bounds. It is before its first key; SeekGE(it.Key()) takes it where the iterator is. The
// caller closes both, in any order. They may be used by two goroutines, except those of a transaction. An iterator that
// failed can be cloned: the clone reads again.
func (i *Iterator) Clone(o *IterOptions) (*Iterator, error) {
	if i == nil {
		return nil, ErrClosed
	}
	c := &Iterator{db: i.db, pinned: i.pinned}
	if !i.cursor.Clone(&c.cursor, (*scan.Options)(o)) {
		return nil, ErrClosed
	}
	i.db.opened.Add(c, counters.Iterator, i.db.opts.TrackOpen)
	i.txn.follow(c)
	return c, nil
}

// Close releases the iterator and returns Err. It may be called more than once.
func (i *Iterator) Close() error {
	if i == nil || i.db == nil {
		return ErrClosed
	}
	if !i.cursor.Closed() {
		i.cursor.Close()
		i.db.tables.Settle() // the tables that it held may be the ones to close
		i.db.opened.Remove(i, counters.Iterator)
		i.txn.forget(i)
	}
	if err := i.cursor.Err(); err != ErrClosed { // which only says that the iterator is closed
		return err
	}
	return nil
}
