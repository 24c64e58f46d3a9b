package db

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/lookup"
	"github.com/sievedb/sievedb/internal/tracking"
	"github.com/sievedb/sievedb/internal/txn"
)

// Iterator walks the keys of the database in order, as they were when it was created. It is
// used by one goroutine at a time and must be closed: until then the files that it may read
// stay on disk.
//
// An iterator is at a key, before the first key or after the last; with bounds,
// the first and the last are those within them. A new iterator is before the
// first key, so "for it.Next() { … }" visits every key. Next moves from before the
// first key to it, and stays after the last; Prev moves from after the last key to
// it, and stays before the first. A seek that finds no key leaves the iterator on
// the side that it searched: SeekGE and First after the last key, SeekLT and Last
// before the first.
//
// Each movement returns whether the iterator is at a key afterwards, as Valid does. After
// false, Err distinguishes a clean end (nil) from a failure. After a failure, and after Close,
// no movement returns true again: an iterator never skips what it could not read.
type Iterator struct {
	*iterParts // nil once closed, because other iterators use them then
	db         *DB
	err        error

	// Going forward, the runs are at the entry shown, whose user key is shown. Going
	// backward, they are before all versions of the key shown, which key and value hold.
	// While the iterator is not valid, reverse gives the side: before the first key if set,
	// after the last otherwise. So the end of a movement need not record the side.
	valid, reverse bool
	closed         bool
	held           bool // value is what Value returns: going backward, or without an envelope

	// walk records what a transaction reads, txn the transaction; nil otherwise.
	walk *txn.Walk
	txn  *Transaction

	// prefix is that of the iterator's namespace, which is before each key in the runs and is
	// not shown; nil if there is none.
	prefix []byte
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
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	if o == nil {
		o = &IterOptions{}
	}
	s, seq := d.finder.RefAt(at)
	it := &Iterator{db: d, iterParts: iterPartsPool.Get().(*iterParts), reverse: true}
	it.iterParts.open(d, s, o, seq, own)
	if it.expiry = d.expiry; d.expiry != nil {
		it.now = d.finder.Time(at)
	}
	d.opened.Add(it, tracking.Iterator, d.opts.TrackOpen)
	return it, nil
}

// ready reports whether the iterator may move.
func (i *Iterator) ready() bool {
	if i == nil {
		return false
	}
	switch {
	case i.err != nil:
	case i.closed || i.db == nil || i.db.closed.Load():
		i.err = ErrClosed
	default:
		return true
	}
	i.valid = false
	return false
}

// First moves to the first key.
func (i *Iterator) First() bool {
	i.endWalk()
	if !i.ready() {
		return false
	}
	if i.lower != nil {
		return i.seekGE(i.lower)
	}
	i.beginWalk(true, nil, false)
	i.turn(false)
	return i.findForward(i.it.First(), false)
}

// Last moves to the last key.
func (i *Iterator) Last() bool {
	i.endWalk()
	if !i.ready() {
		return false
	}
	if i.upper != nil {
		return i.seekLT(i.upper)
	}
	i.beginWalk(false, nil, false)
	i.turn(true)
	return i.findBackward(i.it.Last())
}

// SeekGE moves to the first key that is >= key, or after the last key if none is. A seek forward
// continues from the iterator's position: a run that is already at or after key does not move, and
// one whose present data block reaches to key searches only there. So a seek to skip keys costs
// less than a seek elsewhere, and from about twenty keys on less than the calls of Next.
func (i *Iterator) SeekGE(key []byte) bool { return i.seekGE(i.stored(key)) }

// seekGE is SeekGE for a key with the namespace's prefix.
func (i *Iterator) seekGE(key []byte) bool {
	i.endWalk()
	if !i.ready() {
		return false
	}
	if i.lower != nil && i.cmp.Compare(key, i.lower) < 0 {
		key = i.lower
	}
	i.turn(false)
	if i.upper != nil && i.cmp.Compare(key, i.upper) >= 0 {
		i.valid = false
		return false
	}
	i.beginWalk(true, key, false)
	i.seekKey = base.AppendInternalKey(i.seekKey[:0], key, max(i.seq, i.ownSeq), base.KindSeek)
	return i.findForward(i.it.SeekGE(i.seekKey), false)
}

// SeekLT moves to the last key that is < key, or before the first key if none is.
func (i *Iterator) SeekLT(key []byte) bool { return i.seekLT(i.stored(key)) }

// seekLT is SeekLT for a key with the namespace's prefix.
func (i *Iterator) seekLT(key []byte) bool {
	i.endWalk()
	if !i.ready() {
		return false
	}
	if key == nil {
		key = []byte{} // nil would be the end for the walk
	}
	if i.upper != nil && i.cmp.Compare(key, i.upper) > 0 {
		key = i.upper
	}
	i.turn(true)
	if i.lower != nil && i.cmp.Compare(key, i.lower) <= 0 {
		i.valid = false
		return false
	}
	i.beginWalk(false, key, false)
	i.seekKey = base.AppendInternalKey(i.seekKey[:0], key, base.MaxSeq, base.KindSeek)
	return i.findBackward(i.it.SeekLT(i.seekKey))
}

// Next moves to the next key: from before the first key to the first, from the last
// to after it.
func (i *Iterator) Next() bool {
	if i == nil || !i.valid {
		return i.enterForward()
	}
	if !i.ready() {
		return false
	}
	if !i.reverse {
		if i.it.NextDistinct() {
			return i.findForward(true, false)
		}
		i.key = append(i.key[:0], i.shown...)
		return i.findForward(i.it.Next(), true)
	}
	// The runs are before the versions of the present key. Below the lower bound some may
	// have skipped entries, so a step forward could show others of those.
	i.turnWalk(true)
	i.turn(false)
	i.seekKey = base.AppendInternalKey(i.seekKey[:0], i.key, 0, base.KindDelete)
	return i.findForward(i.it.SeekGE(i.seekKey), true)
}

// turn makes the iterator go backward or forward from here.
func (i *Iterator) turn(reverse bool) { i.reverse, i.held = reverse, reverse || i.expiry != nil }

// enterForward is Next of an iterator that is not at a key.
func (i *Iterator) enterForward() bool { return i.ready() && i.reverse && i.First() }

// enterBackward is Prev of an iterator that is not at a key.
func (i *Iterator) enterBackward() bool { return i.ready() && !i.reverse && i.Last() }

// Prev moves to the previous key: from after the last key to the last, from the first
// to before it.
func (i *Iterator) Prev() bool {
	if i == nil || !i.valid {
		return i.enterBackward()
	}
	if !i.ready() {
		return false
	}
	if i.reverse {
		return i.findBackward(i.it.Valid())
	}
	// Step back over what shadows and precedes the present entry.
	i.turnWalk(false)
	i.turn(true)
	i.key = append(i.key[:0], i.shown...)
	ok := i.it.Prev()
	for ok && i.isKey(base.UserKey(i.it.Key())) {
		ok = i.it.Prev()
	}
	return i.findBackward(ok)
}

// findForward shows the first visible key from the position of the runs; ok says whether they
// are at an entry. With skipping, versions of i.key are skipped.
func (i *Iterator) findForward(ok, skipping bool) bool {
	for ; ok; ok = i.it.Next() {
		ikey := i.it.Key()
		user := base.UserKey(ikey)
		if skipping && i.isKey(user) {
			continue
		}
		if i.upper != nil && i.cmp.Compare(user, i.upper) >= 0 {
			break
		}
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if seq > i.seq && i.hides(seq) {
			continue
		}
		if kind == base.KindSet {
			i.valid, i.shown = true, user
			if !i.held || i.openValue(i.it.Value()) {
				return true
			}
			if i.err != nil {
				return false
			}
		}
		i.key, skipping = append(i.key[:0], user...), true
	}
	return i.end()
}

// findBackward shows the last visible key at or before the position of the runs and leaves
// them before its versions. Going backward, the versions of a key come oldest first, so the
// last visible one decides.
func (i *Iterator) findBackward(ok bool) bool {
	for {
		found := false // key and value hold a candidate
		for ; ok; ok = i.it.Prev() {
			ikey := i.it.Key()
			user := base.UserKey(ikey)
			if found && !i.isKey(user) {
				break
			}
			if i.lower != nil && i.cmp.Compare(user, i.lower) < 0 {
				break
			}
			seq, kind := base.SplitTrailer(base.Trailer(ikey))
			if seq > i.seq && i.hides(seq) {
				if found && !(i.keysOnly && i.expiry == nil) { // a further step might invalidate the value
					i.keepValue(i.value)
				}
				continue
			}
			if found = kind == base.KindSet; !found {
				continue
			}
			i.own, i.key = seq > i.seq, append(i.key[:0], user...)
			if i.keysOnly && i.expiry == nil {
				continue
			}
			if i.value = i.it.Value(); !i.it.ValueStays() {
				i.keepValue(i.value)
			}
		}
		if !found || i.it.Err() != nil {
			return i.end()
		}
		i.valid, i.shown = true, i.key
		if i.expiry == nil {
			return true
		}
		if i.openValue(i.value) || i.err != nil {
			return i.valid
		}
		ok = i.it.Valid()
	}
}

// openValue makes i.value the value without its envelope. If that is hidden, the iterator is not
// valid afterwards.
func (i *Iterator) openValue(value []byte) bool {
	i.value = value
	if !i.reverse {
		seq, _ := base.SplitTrailer(base.Trailer(i.it.Key()))
		i.own = seq > i.seq
	}
	if !i.own { // a transaction's own write has no envelope yet
		i.value, i.valid, i.err = i.expiry.Open(i.shown, value, i.now)
	}
	if i.keysOnly {
		i.value = nil
	}
	return i.valid
}

// keepValue makes i.value a copy of value.
func (i *Iterator) keepValue(value []byte) {
	if cap(i.valueBuf) > mostPooled && len(value) < cap(i.valueBuf)/4 {
		i.valueBuf = nil // too large to keep
	}
	i.valueBuf = append(i.valueBuf[:0], value...)
	if i.value = i.valueBuf; i.value == nil {
		i.value = []byte{}
	}
}

// isKey reports whether user is i.key.
func (i *Iterator) isKey(user []byte) bool {
	if i.bytewise {
		return bytes.Equal(user, i.key)
	}
	return i.cmp.Compare(user, i.key) == 0
}

func (i *Iterator) end() bool {
	i.valid = false
	i.err = i.it.Err()
	return false
}

// Valid reports whether the iterator is at a key.
func (i *Iterator) Valid() bool { return i != nil && i.valid }

// Key returns the key, nil if the iterator is not at one. The slice belongs to the iterator
// and is valid until its next movement.
func (i *Iterator) Key() []byte {
	if i == nil || !i.valid {
		return nil
	}
	return i.shown[len(i.prefix):]
}

// stored returns key with the namespace's prefix.
func (i *Iterator) stored(key []byte) []byte {
	if i == nil || i.prefix == nil {
		return key
	}
	return slices.Concat(i.prefix, key)
}

// Value returns the value, nil if the iterator is not at a key or shows only keys; an empty value is
// not nil. The slice belongs to the iterator and is valid until its next movement.
func (i *Iterator) Value() []byte {
	switch {
	case i == nil || !i.valid:
		return nil
	case i.held:
		return i.value
	case i.keysOnly:
		return nil
	}
	return i.it.Value()
}

// Err returns the first failure, nil at a clean end; ErrClosed for a nil Iterator.
func (i *Iterator) Err() error {
	if i == nil {
		return ErrClosed
	}
	return i.err
}

// Close releases the iterator and returns Err. It may be called more than once.
func (i *Iterator) Close() error {
	if i == nil || i.db == nil {
		return ErrClosed
	}
	if i.closed {
		return i.failure()
	}
	i.endWalk()
	i.closed, i.valid = true, false
	version := i.state.Version
	if err := i.iterParts.close(); err != nil && i.err == nil {
		i.err = err
	}
	i.iterParts = nil
	version.Unref()
	i.db.opened.Remove(i, tracking.Iterator)
	i.txn.forget(i)
	return i.failure()
}

// failure returns the error, except one that only says that the iterator is closed.
func (i *Iterator) failure() error {
	if i.err == ErrClosed {
		return nil
	}
	return i.err
}
