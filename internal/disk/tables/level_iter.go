package tables

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// LevelIter iterates over the tables of one level below level 0, or of any sorted list
// of tables, and opens a table when it comes to it. It is a base.Iterator.
type LevelIter struct {
	tables  *Cache
	cmp     *base.Comparer
	files   []*version.FileMeta
	level   *version.Level       // nil, or a level that begins with files, for faster searches
	options *sstable.IterOptions // which several runs of one iterator share

	index int  // of the current table; -1 or len(files) at the ends
	open  bool // table is an iterator over files[index]
	table sstable.Iter
	err   error

	ranges  *RangeCounters // nil if range filters are not used
	pending bool           // a range filter passed the current table, and the result is not counted yet
}

var _ base.Iterator = (*LevelIter)(nil)

// noOptions are those of a closed LevelIter.
var noOptions sstable.IterOptions

// NewLevelIter returns an iterator over files, which are sorted and do not overlap. It is not positioned.
func NewLevelIter(tables *Cache, cmp *base.Comparer, files []*version.FileMeta, o sstable.IterOptions) *LevelIter {
	l := &struct {
		LevelIter
		options sstable.IterOptions
	}{options: o}
	l.Init(tables, cmp, files, &l.options)
	return &l.LevelIter
}

// Init makes l, which must be new or closed, an iterator like one of NewLevelIter. It
// reuses l's memory. o must not change until l is closed.
func (l *LevelIter) Init(tables *Cache, cmp *base.Comparer, files []*version.FileMeta, o *sstable.IterOptions) {
	l.tables, l.cmp, l.files, l.options = tables, cmp, files, o
	l.index, l.err = -1, nil
	l.level, l.ranges, l.pending = nil, nil, false
}

// SetLevel makes searches faster by using level, whose files must begin with those of l.
func (l *LevelIter) SetLevel(level *version.Level) { l.level = level }

// AskRanges makes l use range filters and count their results in c. With nil it uses none.
// The iterator must have both bounds.
func (l *LevelIter) AskRanges(c *RangeCounters) { l.ranges = c }

// goTo makes table i the current one. It returns false at the ends and after an error.
func (l *LevelIter) goTo(i int) bool {
	if l.err != nil {
		return false
	}
	if l.open && i == l.index {
		return true
	}
	l.index = i
	if i < 0 || i >= len(l.files) {
		l.closeTable()
		return false
	}
	l.err = openTableIter(l.tables, l.files[i], &l.table, *l.options)
	l.open = l.err == nil
	return l.open
}

// openTableIter opens it as an iterator over f, which keeps the table open. After an error it is closed.
func openTableIter(tables *Cache, f *version.FileMeta, it *sstable.Iter, o sstable.IterOptions) error {
	for {
		r, err := tables.Get(f)
		if err != nil {
			_ = it.Close() // it may be at another table; the error is about f
			return err
		}
		// The open-table cache may have closed the reader meanwhile. The file still exists.
		if err := it.Open(r, o); err != sstable.ErrReaderClosed {
			return err
		}
	}
}

// fileNum returns the number of the current table. The iterator must be Valid.
func (l *LevelIter) fileNum() uint64 { return l.files[l.index].Num }

func (l *LevelIter) closeTable() {
	if l.open {
		l.open = false
		if err := l.table.Close(); err != nil && l.err == nil {
			l.err = err
		}
	}
}

// forward returns true if ok is true, and otherwise moves to the first entry of a later table.
func (l *LevelIter) forward(ok bool) bool {
	for !ok {
		if l.failed() || !l.goTo(l.notEmpty(l.index+1, +1, l.options.Lower, l.options.Upper)) {
			return false
		}
		ok = l.found(l.table.First())
	}
	return true
}

func (l *LevelIter) backward(ok bool) bool {
	for !ok {
		if l.failed() || !l.goTo(l.notEmpty(l.index-1, -1, l.options.Lower, l.options.Upper)) {
			return false
		}
		ok = l.found(l.table.Last())
	}
	return true
}

func (l *LevelIter) failed() bool {
	if l.err == nil && l.open {
		l.err = l.table.Err()
	}
	return l.err != nil
}

func (l *LevelIter) First() bool { return l.goTo(0) && l.forward(l.table.First()) }
func (l *LevelIter) Last() bool  { return l.goTo(len(l.files)-1) && l.backward(l.table.Last()) }

// Find returns the index of the first table whose largest key is >= ikey.
func (l *LevelIter) Find(ikey []byte) int {
	lo, hi := 0, len(l.files)
	if l.level != nil {
		// A table may end with a newer version of the key, and so may the next one.
		lo = min(l.level.Find(base.UserKey(ikey)), hi)
		for lo < hi && base.CompareInternal(l.cmp, l.files[lo].Largest, ikey) < 0 {
			lo++
		}
		return lo
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if base.CompareInternal(l.cmp, l.files[mid].Largest, ikey) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (l *LevelIter) SeekGE(ikey []byte) bool {
	return l.toTableOf(ikey) && l.forward(l.found(l.table.SeekGE(ikey)))
}

// toTableOf makes the table in which a search for ikey begins the current one. It returns
// false if there is none, and after an error.
func (l *LevelIter) toTableOf(ikey []byte) bool {
	return l.goTo(l.notEmpty(l.Find(ikey), +1, base.UserKey(ikey), l.options.Upper))
}

// seekAimed is SeekGE after toTableOf, which must have returned true, and sstable.Aim.
func (l *LevelIter) seekAimed(ikey []byte) bool {
	return l.forward(l.found(l.table.SeekAimed(ikey)))
}

// SeekForward is SeekGE to a key after the current one. It costs less if the target is near.
// The iterator must be Valid.
func (l *LevelIter) SeekForward(ikey []byte) bool {
	if base.CompareInternal(l.cmp, l.files[l.index].Largest, ikey) < 0 {
		return l.SeekGE(ikey)
	}
	return l.forward(l.table.SeekForward(ikey))
}

func (l *LevelIter) SeekLT(ikey []byte) bool {
	// The last key before ikey is in the table that could hold ikey, or else at the end of the previous one.
	i := min(l.Find(ikey), len(l.files)-1)
	if l.ranges != nil {
		i = l.skipEmpty(i, -1, l.options.Lower, l.seekBound(ikey))
	}
	return l.goTo(i) && l.backward(l.found(l.table.SeekLT(ikey)))
}

func (l *LevelIter) Next() bool { return l.table.Next() || l.forward(false) }
func (l *LevelIter) Prev() bool { return l.table.Prev() || l.backward(false) }

func (l *LevelIter) Valid() bool   { return l.err == nil && l.open && l.table.Valid() }
func (l *LevelIter) Key() []byte   { return l.table.Key() }
func (l *LevelIter) Value() []byte { return l.table.Value() }

func (l *LevelIter) Err() error {
	l.failed()
	return l.err
}

// Close releases the tables and the memory of blocks. Init can follow.
func (l *LevelIter) Close() error {
	l.closeTable()
	l.tables, l.files, l.level, l.options, l.ranges = nil, nil, nil, &noOptions, nil
	return l.err
}
