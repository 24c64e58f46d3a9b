package tables

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/sstable"
)

// LevelIter walks the tables of one level below level 0, or of any list of
// tables in order, opening one at a time when it comes to it. It is a
// base.Iterator.
type LevelIter struct {
	tables  *Cache
	cmp     *base.Comparer
	files   []*manifest.FileMeta
	level   *manifest.Level // nil, or one that begins with files: it searches them faster
	options sstable.IterOptions

	index int  // of the table that it is at; -1 or len(files) at the ends
	open  bool // table walks files[index]
	table sstable.Iter
	err   error

	ranges *RangeCounters // nil: no filters of ranges are asked
	asked  bool           // one was, of the present table, and it has still to show what it has
}

var _ base.Iterator = (*LevelIter)(nil)

func NewLevelIter(tables *Cache, cmp *base.Comparer, files []*manifest.FileMeta, o sstable.IterOptions) *LevelIter {
	l := new(LevelIter)
	l.Init(tables, cmp, files, o)
	return l
}

// Init makes l, which is new or closed, an iterator that is not positioned. It
// keeps the memory that it had.
func (l *LevelIter) Init(tables *Cache, cmp *base.Comparer, files []*manifest.FileMeta, o sstable.IterOptions) {
	l.tables, l.cmp, l.files, l.options = tables, cmp, files, o
	l.index, l.err = -1, nil
	l.level, l.ranges, l.asked = nil, nil, false
}

// SetLevel says that the files are those that level begins with: searching it is faster.
func (l *LevelIter) SetLevel(level *manifest.Level) { l.level = level }

// AskRanges has range filters asked, and counted in c; nil: none is asked. The iterator has
// both bounds.
func (l *LevelIter) AskRanges(c *RangeCounters) { l.ranges = c }

// SetMostKept sets IterOptions.MostKept of the tables that are opened from now on.
func (l *LevelIter) SetMostKept(bytes int64) { l.options.MostKept = bytes }

// goTo makes table i the present one. False at the ends and after an error.
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
	l.err = openTableIter(l.tables, l.files[i], &l.table, l.options)
	l.open = l.err == nil
	return l.open
}

// openTableIter makes it an iterator of f that keeps its table open. After an error it is closed.
func openTableIter(tables *Cache, f *manifest.FileMeta, it *sstable.Iter, o sstable.IterOptions) error {
	for {
		r, err := tables.Get(f)
		if err != nil {
			_ = it.Close() // it may be at another table; the error is f's
			return err
		}
		// It may be closed: the open-table cache was faster. The file is there.
		if err := it.Open(r, o); err != sstable.ErrReaderClosed {
			return err
		}
	}
}

// fileNum returns the number of the present table, while Valid.
func (l *LevelIter) fileNum() uint64 { return l.files[l.index].Num }

func (l *LevelIter) closeTable() {
	if l.open {
		l.open = false
		if err := l.table.Close(); err != nil && l.err == nil {
			l.err = err
		}
	}
}

// forward returns ok, or moves on to the first entry of a later table.
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
		// A table may end with a newer version of the key, and so may the one behind.
		for lo = min(l.level.Find(base.UserKey(ikey)), hi); lo < hi && base.CompareInternal(l.cmp, l.files[lo].Largest, ikey) < 0; {
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

// toTableOf makes the table the present one in which a search for ikey begins. False where
// there is none, and after an error.
func (l *LevelIter) toTableOf(ikey []byte) bool {
	return l.goTo(l.notEmpty(l.Find(ikey), +1, base.UserKey(ikey), l.options.Upper))
}

// seekAimed is SeekGE behind toTableOf, where that was true, and sstable.Aim.
func (l *LevelIter) seekAimed(ikey []byte) bool {
	return l.forward(l.found(l.table.SeekAimed(ikey)))
}

// SeekOn is SeekGE to a key behind the present one, while Valid. What is near
// costs less.
func (l *LevelIter) SeekOn(ikey []byte) bool {
	if base.CompareInternal(l.cmp, l.files[l.index].Largest, ikey) < 0 {
		return l.SeekGE(ikey)
	}
	return l.forward(l.table.SeekOn(ikey))
}

func (l *LevelIter) SeekLT(ikey []byte) bool {
	// The last key before ikey is in the table that could hold ikey, or else at
	// the end of the one before.
	i := min(l.Find(ikey), len(l.files)-1)
	if l.ranges != nil {
		i = l.passEmpty(i, -1, l.options.Lower, l.seekBound(ikey))
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

// Close gives the tables back, and the memory of blocks; init can follow.
func (l *LevelIter) Close() error {
	l.closeTable()
	l.tables, l.files, l.level, l.options, l.ranges = nil, nil, nil, sstable.IterOptions{}, nil
	return l.err
}
