package db

import (
	"iter"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
)

// Iterator walks the keys of the database, as they were when it was made, in
// order. It is used by one goroutine at a time, and must be closed: until then
// the files that it may read stay on disk.
//
// A new iterator is not positioned. Each movement returns whether the iterator
// is at a key then, as Valid does. Next and Prev on an iterator that is not at a
// key return false. When a movement returns false, Err tells a clean end (nil)
// from a failure; after a failure the iterator stays invalid, since it never
// skips what it could not read.
type Iterator struct {
	db           *DB
	state        *readState
	cmp          *base.Comparer
	seq          uint64
	lower, upper []byte

	it  *mergingIter
	err error

	// Going forward, it stands at the entry shown. Going backward, it stands
	// before all versions of the key shown, which key and value hold.
	valid, reverse bool
	key            []byte
	value          []byte // going backward
	seekKey        []byte // scratch
	closed         bool
}

// NewIterator returns an iterator over what is visible now. The caller closes
// it. The bounds are copied.
func (d *DB) NewIterator(o *IterOptions) (*Iterator, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	return d.newIterator(o, latest)
}

func (d *DB) newIterator(o *IterOptions, seq uint64) (*Iterator, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	if o == nil {
		o = &IterOptions{}
	}
	s := d.refState()
	if seq == latest {
		// The sequence number must not be newer than the memtables of the state
		// show, or a batch could be seen in part.
		for seq = d.visibleSeq.Load(); d.state.Load() != s; seq = d.visibleSeq.Load() {
			s.version.Unref()
			s = d.refState()
		}
	}
	it := &Iterator{db: d, state: s, cmp: d.cmp, seq: seq}
	if o.LowerBound != nil {
		it.lower = append([]byte{}, o.LowerBound...)
	}
	if o.UpperBound != nil {
		it.upper = append([]byte{}, o.UpperBound...)
	}
	children, err := d.runs(s, it.lower, it.upper, sstable.IterOptions{NoFillCache: o.NoFillCache})
	it.it = newMergingIter(d.cmp, children)
	d.opened.add(it, d.opts.TrackOpen)
	if err != nil {
		_ = it.Close()
		return nil, err
	}
	return it, nil
}

// runs returns an iterator for each memtable, table of level 0 and level that
// can hold keys of [lower, upper). They are returned, to be closed, with an error
// as well.
func (d *DB) runs(s *readState, lower, upper []byte, o sstable.IterOptions) ([]base.Iterator, error) {
	children := make([]base.Iterator, 0, 2+len(s.imm)+len(s.version.Levels[0].Files)+NumLevels)
	children = append(children, s.mem.NewIter())
	for _, m := range s.imm {
		children = append(children, m.NewIter())
	}
	for _, f := range s.version.Overlapping(0, lower, upper) {
		it, err := openTableIter(d.tables, f, o)
		if err != nil {
			return children, err
		}
		children = append(children, it)
	}
	for level := 1; level < NumLevels; level++ {
		if files := s.version.Overlapping(level, lower, upper); len(files) > 0 {
			children = append(children, newLevelIter(d.tables, d.cmp, files, o))
		}
	}
	return children, nil
}

// ready reports whether the iterator may move.
func (i *Iterator) ready() bool {
	switch {
	case i.err != nil:
	case i.closed || i.db.closed.Load():
		i.err = ErrClosed
	default:
		return true
	}
	i.valid = false
	return false
}

// First moves to the first key.
func (i *Iterator) First() bool {
	if i.lower != nil {
		return i.SeekGE(i.lower)
	}
	if !i.ready() {
		return false
	}
	i.reverse = false
	return i.findForward(i.it.First(), false)
}

// Last moves to the last key.
func (i *Iterator) Last() bool {
	if i.upper != nil {
		return i.SeekLT(i.upper)
	}
	if !i.ready() {
		return false
	}
	i.reverse = true
	return i.findBackward(i.it.Last())
}

// SeekGE moves to the first key that is >= key.
func (i *Iterator) SeekGE(key []byte) bool {
	if !i.ready() {
		return false
	}
	if i.lower != nil && i.cmp.Compare(key, i.lower) < 0 {
		key = i.lower
	}
	i.reverse = false
	i.seekKey = base.AppendInternalKey(i.seekKey[:0], key, i.seq, base.KindSeek)
	return i.findForward(i.it.SeekGE(i.seekKey), false)
}

// SeekLT moves to the last key that is < key.
func (i *Iterator) SeekLT(key []byte) bool {
	if !i.ready() {
		return false
	}
	if i.upper != nil && i.cmp.Compare(key, i.upper) > 0 {
		key = i.upper
	}
	i.reverse = true
	i.seekKey = base.AppendInternalKey(i.seekKey[:0], key, base.MaxSeq, base.KindSeek)
	return i.findBackward(i.it.SeekLT(i.seekKey))
}

// Next moves to the next key.
func (i *Iterator) Next() bool {
	if !i.valid || !i.ready() {
		return false
	}
	if !i.reverse {
		i.key = append(i.key[:0], base.UserKey(i.it.Key())...)
		return i.findForward(i.it.Next(), true)
	}
	// The runs stand before the versions of the present key, or at the beginning.
	i.reverse = false
	if i.it.Valid() {
		return i.findForward(i.it.Next(), true)
	}
	return i.findForward(i.it.First(), true)
}

// Prev moves to the key before.
func (i *Iterator) Prev() bool {
	if !i.valid || !i.ready() {
		return false
	}
	if i.reverse {
		return i.findBackward(i.it.Valid())
	}
	// Step back over what shadows and precedes the present entry.
	i.reverse = true
	i.key = append(i.key[:0], base.UserKey(i.it.Key())...)
	ok := i.it.Prev()
	for ok && i.cmp.Compare(base.UserKey(i.it.Key()), i.key) == 0 {
		ok = i.it.Prev()
	}
	return i.findBackward(ok)
}

// findForward shows the first visible key from where the runs stand; ok says
// whether they stand at an entry. With skipping, versions of i.key are passed
// over.
func (i *Iterator) findForward(ok, skipping bool) bool {
	for ; ok; ok = i.it.Next() {
		ikey := i.it.Key()
		user := base.UserKey(ikey)
		if skipping && i.cmp.Compare(user, i.key) == 0 {
			continue
		}
		if i.upper != nil && i.cmp.Compare(user, i.upper) >= 0 {
			break
		}
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if seq > i.seq {
			continue
		}
		if kind == base.KindSet {
			i.valid = true
			return true
		}
		i.key, skipping = append(i.key[:0], user...), true
	}
	return i.end()
}

// findBackward shows the last visible key at or before where the runs stand and
// leaves them before its versions. Going backward, the versions of a key come
// oldest first: the last one that is visible decides.
func (i *Iterator) findBackward(ok bool) bool {
	found := false // key and value hold a candidate
	for ; ok; ok = i.it.Prev() {
		ikey := i.it.Key()
		user := base.UserKey(ikey)
		if found && i.cmp.Compare(user, i.key) != 0 {
			break
		}
		if i.lower != nil && i.cmp.Compare(user, i.lower) < 0 {
			break
		}
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if seq > i.seq {
			continue
		}
		if found = kind == base.KindSet; found {
			i.key = append(i.key[:0], user...)
			i.value = append(i.value[:0], i.it.Value()...)
		}
	}
	if !found || i.it.Err() != nil {
		return i.end()
	}
	i.valid = true
	return true
}

func (i *Iterator) end() bool {
	i.valid = false
	i.err = i.it.Err()
	return false
}

// Valid reports whether the iterator is at a key.
func (i *Iterator) Valid() bool { return i.valid }

// Key returns the key, nil if the iterator is not at one. The slice belongs to
// the iterator and holds until its next movement.
func (i *Iterator) Key() []byte {
	switch {
	case !i.valid:
		return nil
	case i.reverse:
		return i.key
	}
	return base.UserKey(i.it.Key())
}

// Value returns the value, nil if the iterator is not at a key. The slice
// belongs to the iterator and holds until its next movement.
func (i *Iterator) Value() []byte {
	switch {
	case !i.valid:
		return nil
	case i.reverse:
		return i.value
	}
	return i.it.Value()
}

// Err returns the first failure, nil at a clean end.
func (i *Iterator) Err() error { return i.err }

// Close releases the iterator and returns Err. It may be called more than once.
func (i *Iterator) Close() error {
	if i.closed {
		return i.failure()
	}
	i.closed, i.valid = true, false
	if err := i.it.Close(); err != nil && i.err == nil {
		i.err = err
	}
	i.state.version.Unref()
	i.db.opened.remove(i)
	return i.failure()
}

// failure is the error without the mere use after Close.
func (i *Iterator) failure() error {
	if i.err == ErrClosed {
		return nil
	}
	return i.err
}

// All returns a sequence over all keys and values within the bounds, for a range
// loop. The slices hold until the loop's next round. After the loop, Err tells
// whether it saw everything; Close remains the caller's:
//
//	it, err := d.NewIterator(nil)
//	if err != nil { … }
//	defer it.Close()
//	for key, value := range it.All() { … }
//	return it.Err()
func (i *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := i.First(); ok; ok = i.Next() {
			if !yield(i.Key(), i.Value()) {
				return
			}
		}
	}
}

var (
	_ base.Iterator = (*mergingIter)(nil)
	_ base.Iterator = (*levelIter)(nil)
)
