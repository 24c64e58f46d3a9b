package db

import "github.com/sievedb/sievedb/internal/tracking"

// SetBounds replaces the iterator's bounds and moves it before the first key within them. It still
// shows the same moment. The bounds are copied, so they may be slices of Key or Value; nil means no
// bound. SetBounds reads nothing and costs about as much as NewIterator, without the allocation. An
// iterator that failed stays so, and one that is closed has ErrClosed.
func (i *Iterator) SetBounds(lower, upper []byte) {
	i.endWalk() // within the old bounds
	if !i.ready() {
		return
	}
	i.valid, i.reverse = false, true
	i.err = i.reopen(i.db, i.prefix, lower, upper)
	if i.walk != nil {
		i.walk.Lower, i.walk.Upper = i.lower, i.upper
	}
}

// Clone returns another iterator over the same moment, which may have passed for everybody else: the
// clone of an iterator of a snapshot or a transaction shows what that iterator shows. o are its
// options; nil means those of the iterator, with its present bounds. It is before its first key;
// SeekGE(it.Key()) takes it where the iterator is. The caller closes both, in any order. They may be
// used by two goroutines, except those of a transaction. An iterator that failed can be cloned: the
// clone reads again.
func (i *Iterator) Clone(o *IterOptions) (*Iterator, error) {
	if i == nil || i.closed || i.db == nil || i.db.closed.Load() || !i.state.Version.TryRef() {
		return nil, ErrClosed
	}
	c := &Iterator{db: i.db, iterParts: iterPartsPool.Get().(*iterParts), reverse: true, prefix: i.prefix}
	c.openLike(i.db, i.iterParts, o, i.prefix)
	i.db.opened.Add(c, tracking.Iterator, i.db.opts.TrackOpen)
	i.txn.follow(c)
	return c, nil
}
