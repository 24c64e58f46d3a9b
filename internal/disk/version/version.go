package version

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// NumLevels is LevelDB's number of levels (its config::kNumLevels).
const NumLevels = 7

// Version is the set of tables of the database at one moment. It is immutable and safe for concurrent use.
type Version struct {
	Cmp    *base.Comparer
	Levels [NumLevels]Level

	// Values are the value tables by ID, in ascending order of the IDs.
	Values     []ValueTable
	valueFiles []ValueTable // see ValueFiles
	// valueSize is their size in bytes, and garbage how much of that nothing refers to.
	valueSize, garbage uint64

	shared []byte // the common prefix of the user keys of all tables
	level0 level0State
	roster roster // of all tables, value tables too
	// overlaps has, for each file of a level, the bytes of the next level that it overlaps as a multiple of
	// its size; nil until a choice needs it. Those of level 0 and of the last level are never needed.
	overlaps [NumLevels]atomic.Pointer[[]float64]

	owner *Owner
	refs  atomic.Int32
}

// Owner is what all versions of a store share. The zero value has no callbacks.
type Owner struct {
	// Obsolete is called with the files that no version contains any more, and the last level of each, in the order in
	// which to remove them. The files with the oldest entries come first, so that after a crash the remaining inputs of
	// a compaction have the newest version of each of their keys. The goroutine that released the last reference calls
	// Obsolete, which must not block.
	Obsolete func([]LevelFile)
	// NewHandle makes the FileMeta.Handle of a file that enters a version without one.
	NewHandle func() any

	noted noted // has its own lock
}

// New returns a version without tables, with one reference.
func New(cmp *base.Comparer, owner *Owner) *Version {
	v := &Version{Cmp: cmp, owner: owner}
	v.refs.Store(1)
	return v
}

// Level has the tables of one level. Level 0 is in the order of lookups, greatest number first,
// because its tables overlap; see Level0InOrder. The tables of the other levels ascend, and no
// internal key is in the range of two of them.
type Level struct {
	Files []*FileMeta
	Bytes uint64

	keyRanges // of Files, in their order

	// least and greatest are the first and last user keys of all files, nil for orders other than bytewise.
	least, greatest []byte
}

// newLevel sorts files in the level's order.
func newLevel(comparer *base.Comparer, number int, files []*FileMeta) Level {
	l := Level{Files: files}
	for _, f := range files {
		l.Bytes += f.Size
	}
	slices.SortFunc(files, func(a, b *FileMeta) int { return CompareFiles(comparer, number, a, b) })
	return l
}

// Overlapping returns the files of level that overlap the user keys [start, limit], both inclusive, in the level's
// order; nil means no bound. The result may share memory with the version and must not be changed.
func (v *Version) Overlapping(level int, start, limit []byte) []*FileMeta {
	l := &v.Levels[level]
	if level == 0 {
		var out []*FileMeta
		for _, f := range l.Files {
			if f.OverlapsUser(v.Cmp, start, limit) {
				out = append(out, f)
			}
		}
		return out
	}
	lo, hi := 0, len(l.Files)
	if start != nil {
		lo = l.Find(start)
	}
	if limit != nil {
		hi = lo + sort.Search(len(l.Files)-lo, func(i int) bool {
			return v.Cmp.Compare(base.UserKey(l.Files[lo+i].Smallest), limit) > 0
		})
	}
	return l.Files[lo:hi:hi]
}

// Within returns the files of level that may have user keys in [start, limit), in the level's order;
// nil means no bound. Overlapping is for the inclusive range of a table, Within is for a range given by
// a user. The result may share memory with the version and must not be changed.
func (v *Version) Within(level int, start, limit []byte) []*FileMeta {
	files := v.Overlapping(level, start, limit)
	if limit == nil {
		return files
	}
	beginsAtLimit := func(f *FileMeta) bool { return v.Cmp.Compare(base.UserKey(f.Smallest), limit) >= 0 }
	if level == 0 {
		return slices.DeleteFunc(files, beginsAtLimit) // level 0 is a new slice
	}
	// If versions of one user key fill several tables, more than one begins at the limit.
	for len(files) > 0 && beginsAtLimit(files[len(files)-1]) {
		n := len(files) - 1
		files = files[:n:n] // appending must not change the version
	}
	return files
}

// DisjointRuns divides files, in any order, into few runs of ascending tables that share no user key,
// so that a merge reads each run with one iterator.
func (v *Version) DisjointRuns(files []*FileMeta) [][]*FileMeta {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b *FileMeta) int { return base.CompareInternal(v.Cmp, a.Smallest, b.Smallest) })
	var runs [][]*FileMeta
	for _, f := range files {
		fits := func(run []*FileMeta) bool {
			return v.Cmp.Compare(base.UserKey(run[len(run)-1].Largest), base.UserKey(f.Smallest)) < 0
		}
		if i := slices.IndexFunc(runs, fits); i >= 0 {
			runs[i] = append(runs[i], f)
		} else {
			runs = append(runs, []*FileMeta{f})
		}
	}
	return runs
}

// NumFiles returns the number of tables.
func (v *Version) NumFiles() int {
	n := 0
	for i := range v.Levels {
		n += len(v.Levels[i].Files)
	}
	return n
}

// Files calls f for each table, level by level.
func (v *Version) Files(f func(level int, file *FileMeta)) {
	for level := range v.Levels {
		for _, file := range v.Levels[level].Files {
			f(level, file)
		}
	}
}

// check returns an error unless the version has the invariants on which the read path and compaction
// depend. Apply checks the same of what changes, in every version, including those read from disk,
// because a MANIFEST may be wrong; check finds the words for what is wrong.
func (v *Version) check() error {
	seen := make(map[uint64]int, v.NumFiles())
	for level := range v.Levels {
		files := v.Levels[level].Files
		for i, f := range files {
			if other, dup := seen[f.Num]; dup {
				return OnTwoLevels(f.Num, other, level)
			}
			seen[f.Num] = level
			if base.CompareInternal(v.Cmp, f.Smallest, f.Largest) > 0 {
				return base.Corruptf("version", -1,
					"table %d on level %d begins after its end%s", f.Num, level, base.OtherOrder(v.Cmp))
			}
			if level > 0 && i > 0 && base.CompareInternal(v.Cmp, files[i-1].Largest, f.Smallest) >= 0 {
				return base.Corruptf("version", -1,
					"tables %d and %d on level %d overlap%s", files[i-1].Num, f.Num, level, base.OtherOrder(v.Cmp))
			}
		}
	}
	return nil
}

// OnTwoLevels returns the error for a table that a and b, levels, both have.
func OnTwoLevels(num uint64, a, b int) error {
	return base.Corruptf("version", -1, "table %d is on level %d and on level %d", num, a, b)
}

// TryRef takes a reference, which prevents the removal of the version's files. It returns false if the
// version was already released; the caller then loads the current one.
func (v *Version) TryRef() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unref releases a reference. Files that no version contains any more are passed to Owner.Obsolete.
func (v *Version) Unref() {
	n := v.refs.Add(-1)
	if n < 0 {
		panic(fmt.Sprintf("version: reference count fell to %d", n))
	}
	if n > 0 {
		return
	}
	gone := v.roster.release()
	if len(gone) == 0 {
		return
	}
	v.sortForRemoval(gone)
	v.owner.noted.forget(gone)
	if v.owner.Obsolete != nil {
		v.owner.Obsolete(gone)
	}
}

// sortForRemoval sorts files of v in the order of Owner.Obsolete: the deepest level first, and each
// from its end. It does not call a comparer of the user, which may panic, because readers call it.
func (v *Version) sortForRemoval(files []LevelFile) {
	order := func(a, b LevelFile) int { return CompareFiles(v.Cmp, a.Level, b.File, a.File) }
	if !v.Cmp.IsBytewise() {
		index := make(map[*FileMeta]int, len(files))
		for i, f := range files {
			index[f.File] = -i
		}
		next := 0
		v.AllFiles(func(_ int, f *FileMeta) {
			if _, ok := index[f]; ok {
				index[f] = next
			}
			next++
		})
		order = func(a, b LevelFile) int { return cmp.Compare(index[b.File], index[a.File]) }
	}
	slices.SortFunc(files, func(a, b LevelFile) int {
		// What refers to a value goes before the value.
		values := cmp.Compare(a.Level/ValuesLevel, b.Level/ValuesLevel)
		return cmp.Or(values, cmp.Compare(b.Level, a.Level), order(a, b))
	})
}

// Discard releases a version that never became the current one. The caller removes its new files; those of the version
// before stay.
func (v *Version) Discard() {
	v.refs.Store(0)
	v.owner.noted.forget(v.roster.release())
}
