package version

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// A version is made from the one before it. Levels without changes are shared. Of the others, the arrays are copied
// with the changes, and only the changed tables and their neighbours are checked: the version before was checked too.
// What remains in proportion to the number of tables is the copying of 24 bytes for each table of a changed level.

// levelChange is the difference between a level of two versions.
type levelChange struct {
	steps []step // in ascending order of at; additions come before the removal at the same index
	fresh []int  // the indices of the added files in the new level
}

// step is a change at an index of the old level: file is inserted before it or, if it is nil, the file
// there is removed.
type step struct {
	at   int
	file *FileMeta
}

// size returns the length of a level of n files after the change.
func (c *levelChange) size(n int) int { return n + 2*len(c.fresh) - len(c.steps) }

// spliced returns old with the steps applied. of returns the value for an added file.
func spliced[T any](old []T, c *levelChange, of func(*FileMeta) T) []T {
	out := make([]T, 0, c.size(len(old)))
	next := 0
	for _, s := range c.steps {
		out = append(out, old[next:s.at]...)
		if next = s.at; s.file != nil {
			out = append(out, of(s.file))
		} else {
			next++
		}
	}
	return append(out, old[next:]...)
}

// Change is the part of an edit that is about tables.
type Change struct {
	Deleted []DeletedFile
	Added   []LevelFile
	Values  []ValueDelta
}

// DeletedFile is a table that is removed from a level.
type DeletedFile struct {
	Level int
	Num   uint64
}

// LevelFile is a table and its level.
type LevelFile struct {
	Level int
	File  *FileMeta
}

// Apply returns the checked version that results from applying the edits to v. The new version has one reference and
// counts as a reference of its files; v is unchanged, and the caller has a reference to it, or it has no files.
func (v *Version) Apply(edits ...Change) (*Version, error) {
	removed, added := v.net(edits)
	var deltas []ValueDelta
	for _, e := range edits {
		deltas = append(deltas, e.Values...)
	}
	if len(v.roster.buckets) == 0 {
		return v.fresh(added, deltas)
	}
	next := New(v.Cmp, v.owner)
	next.Levels = v.Levels
	var unique bool
	if next.roster, unique = v.roster.with(removed, added); !unique {
		return nil, v.refused(removed, added)
	}
	if err := next.setValues(v, removed, added, deltas); err != nil {
		return nil, err
	}
	var changes [NumLevels]*levelChange
	for level := range v.Levels {
		c := v.Levels[level].change(v.Cmp, level, removed, added)
		if c == nil {
			continue
		}
		changes[level] = c
		l, old := &next.Levels[level], &v.Levels[level]
		l.Files = spliced(old.Files, c, func(f *FileMeta) *FileMeta { return f })
		l.Bytes = old.Bytes
		for _, e := range removed {
			if e.level == level {
				l.Bytes -= e.file.Size
			}
		}
		for _, i := range c.fresh {
			l.Bytes += l.Files[i].Size
		}
		if !l.inOrderAround(v.Cmp, level, c.fresh) {
			return nil, v.refused(removed, added)
		}
		l.setExtremes(v.Cmp, level)
	}
	next.updateSearch(v, &changes)
	level0 := v.level0.order.Load()
	if changes[0] != nil || order(level0) == orderUnknown { // what it depends on may be known by now
		level0 = int32(orderOf(v.Cmp, next.Levels[0].Files))
	}
	next.level0.order.Store(level0)
	next.updateOverlaps(v, &changes)
	next.roster.hold()
	next.note(added)
	return next, nil
}

// net returns the files of v that the edits remove, and those that they add in the end. The deletions of
// an edit come before its additions. What is not there is not removed, and an addition replaces a file
// of the same number on the same level, as in LevelDB.
func (v *Version) net(edits []Change) (removed, added []rosterEntry) {
	deletions, additions := 0, 0
	for _, e := range edits {
		deletions, additions = deletions+len(e.Deleted), additions+len(e.Added)
	}
	changes := make([]change, 0, deletions+additions)
	for _, e := range edits {
		for _, d := range e.Deleted {
			changes = append(changes, change{rosterEntry{d.Num, d.Level, nil}, len(changes)})
		}
		for _, a := range e.Added {
			v.giveHandle(a.File)
			changes = append(changes, change{rosterEntry{a.File.Num, a.Level, a.File}, len(changes)})
		}
	}
	slices.SortFunc(changes, compareChanges)
	removed, added = make([]rosterEntry, 0, deletions+1), make([]rosterEntry, 0, additions)
	for i, c := range changes {
		if i+1 < len(changes) && changes[i+1].num == c.num && changes[i+1].level == c.level {
			continue // the last change of a place counts
		}
		if e, ok := v.roster.find(c.num); ok && e.level == c.level {
			removed = append(removed, e)
		}
		if c.file != nil {
			added = append(added, c.rosterEntry)
		}
	}
	return removed, added
}

// change is the addition of a file to a place or, if file is nil, its removal. order is that of the edits.
type change struct {
	rosterEntry
	order int
}

func compareChanges(a, b change) int {
	switch {
	case a.num != b.num:
		return cmp.Compare(a.num, b.num)
	case a.level != b.level:
		return a.level - b.level
	}
	return a.order - b.order
}

func (v *Version) giveHandle(f *FileMeta) {
	if f.Handle == nil && v.owner.NewHandle != nil {
		f.Handle = v.owner.NewHandle()
	}
}

// Fresh returns the checked version of these tables, which shares nothing with v.
func (v *Version) Fresh(tables []LevelFile, values []ValueDelta) (*Version, error) {
	added := make([]rosterEntry, len(tables))
	for i, t := range tables {
		v.giveHandle(t.File)
		added[i] = rosterEntry{t.File.Num, t.Level, t.File}
	}
	return v.fresh(added, values)
}

// fresh is Fresh for tables that have handles.
func (v *Version) fresh(added []rosterEntry, deltas []ValueDelta) (*Version, error) {
	next := New(v.Cmp, v.owner)
	var files [NumLevels + 1][]*FileMeta // with ValuesLevel
	for _, e := range added {
		files[e.level] = append(files[e.level], e.file)
	}
	sound := true
	for level := range NumLevels {
		next.Levels[level] = newLevel(v.Cmp, level, files[level])
		sound = sound && next.Levels[level].inOrder(v.Cmp, level)
	}
	var unique bool
	if next.roster, unique = newRoster(added); !sound || !unique {
		return nil, next.unsound()
	}
	if err := next.setValues(v, nil, added, deltas); err != nil {
		return nil, err
	}
	next.prepareSearch()
	next.level0.order.Store(int32(orderOf(v.Cmp, next.Levels[0].Files)))
	next.roster.hold()
	next.note(added)
	return next, nil
}

// refused returns the error for a version that the changes make unsound.
func (v *Version) refused(removed, added []rosterEntry) error {
	next := &Version{Cmp: v.Cmp}
	var files [NumLevels + 1][]*FileMeta // with ValuesLevel
	for _, e := range v.roster.all(removed, added) {
		files[e.level] = append(files[e.level], e.file)
	}
	for level := range NumLevels {
		next.Levels[level] = newLevel(v.Cmp, level, files[level])
	}
	return next.unsound()
}

// unsound returns what check finds.
func (v *Version) unsound() error {
	if err := v.check(); err != nil {
		return err
	}
	return base.Corruptf("version", -1, "its tables are in no order%s", base.OtherOrder(v.Cmp))
}

// change returns the change of a level of that number, or nil if it has none.
func (l *Level) change(cmp *base.Comparer, number int, removed, added []rosterEntry) *levelChange {
	gone, come := 0, 0
	for i := range removed {
		if removed[i].level == number {
			gone++
		}
	}
	for i := range added {
		if added[i].level == number {
			come++
		}
	}
	if gone+come == 0 {
		return nil
	}
	steps := make([]step, 0, 2*(gone+come))
	for i := range removed {
		if e := &removed[i]; e.level == number {
			i := l.index(cmp, number, e.file)
			if i == len(l.Files) || l.Files[i] != e.file { // the user's order contradicts itself
				i = slices.Index(l.Files, e.file)
			}
			steps = append(steps, step{at: i})
		}
	}
	for i := range added {
		if e := &added[i]; e.level == number {
			steps = append(steps, step{l.index(cmp, number, e.file), e.file})
		}
	}
	// Both are usually in order already.
	order := func(a, b step) int { return compareSteps(cmp, number, a, b) }
	slices.SortFunc(steps[:gone], order)
	slices.SortFunc(steps[gone:], order)
	c := &levelChange{steps: merged(steps, gone, order), fresh: make([]int, 0, come)}
	shift := 0
	for _, s := range c.steps {
		if s.file == nil {
			shift--
		} else {
			c.fresh = append(c.fresh, s.at+shift)
			shift++
		}
	}
	return c
}

// merged merges sorted steps with those from n on, which are sorted too. It uses the capacity of steps.
func merged(steps []step, n int, order func(a, b step) int) []step {
	a, b := steps[:n], steps[n:]
	out := steps[len(steps):len(steps):cap(steps)]
	for len(a) > 0 && len(b) > 0 {
		if order(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func compareSteps(comparer *base.Comparer, number int, a, b step) int {
	switch {
	case a.at != b.at:
		return cmp.Compare(a.at, b.at)
	case a.file == nil:
		return 1 // one file is removed at most once
	case b.file == nil:
		return -1
	}
	return CompareFiles(comparer, number, a.file, b.file)
}

// CompareFiles compares two files in the order of a level.
func CompareFiles(comparer *base.Comparer, number int, a, b *FileMeta) int {
	if number == 0 {
		return cmp.Compare(b.Num, a.Num)
	}
	return base.CompareInternal(comparer, a.Smallest, b.Smallest)
}

// index returns the index of the first file that is not before f in the level's order.
func (l *Level) index(cmp *base.Comparer, number int, f *FileMeta) int {
	lo, hi := 0, len(l.Files)
	if number > 0 && hi > 0 && cmp.IsBytewise() {
		lo, hi = l.sameHead(base.UserKey(f.Smallest))
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return CompareFiles(cmp, number, l.Files[lo+i], f) >= 0 })
}

// sameHead returns the range of the files whose smallest user keys have the same eight bytes as key after
// the common prefix of the level, or an empty one where key belongs.
func (l *Level) sameHead(key []byte) (lo, hi int) {
	n := len(l.shared)
	switch head := string(key[:min(n, len(key))]); {
	case head < string(l.shared):
		return 0, 0
	case head > string(l.shared):
		return len(l.Files), len(l.Files)
	}
	prefix := util.Prefix64(key, n)
	lo, hi = util.LowerBound64(l.smallest, prefix), len(l.smallest)
	if prefix+1 > 0 {
		hi = lo + util.LowerBound64(l.smallest[lo:], prefix+1)
	}
	return lo, hi
}

// inOrder reports whether the files of a level have ranges that a version may have; see check.
func (l *Level) inOrder(cmp *base.Comparer, number int) bool {
	for i := range l.Files {
		if !l.inOrderAt(cmp, number, i) {
			return false
		}
	}
	return true
}

// inOrderAround is inOrder for a level in which the files at fresh are new.
func (l *Level) inOrderAround(cmp *base.Comparer, number int, fresh []int) bool {
	for _, i := range fresh {
		if !l.inOrderAt(cmp, number, i) || i+1 < len(l.Files) && !l.inOrderAt(cmp, number, i+1) {
			return false
		}
	}
	return true
}

// inOrderAt reports whether file i does not begin after its end or, except on level 0, before the end of
// the file before it.
func (l *Level) inOrderAt(cmp *base.Comparer, number, i int) bool {
	f := l.Files[i]
	return base.CompareInternal(cmp, f.Smallest, f.Largest) <= 0 &&
		(number == 0 || i == 0 || base.CompareInternal(cmp, l.Files[i-1].Largest, f.Smallest) < 0)
}

// setExtremes sets least and greatest. The level must be sound.
func (l *Level) setExtremes(cmp *base.Comparer, number int) {
	l.least, l.greatest = nil, nil
	switch n := len(l.Files); {
	case n == 0 || !cmp.IsBytewise():
	case number > 0:
		l.least, l.greatest = base.UserKey(l.Files[0].Smallest), base.UserKey(l.Files[n-1].Largest)
	default:
		for i, f := range l.Files {
			if key := base.UserKey(f.Smallest); i == 0 || bytes.Compare(key, l.least) < 0 {
				l.least = key
			}
			if key := base.UserKey(f.Largest); i == 0 || bytes.Compare(key, l.greatest) > 0 {
				l.greatest = key
			}
		}
	}
}

// updateSearch initializes the fields for Target and Find from those of old.
func (v *Version) updateSearch(old *Version, changes *[NumLevels]*levelChange) {
	v.shared = v.sharedPrefix()
	if !bytes.Equal(v.shared, old.shared) {
		v.indexLevels()
		return
	}
	v.shared = old.shared
	for level, c := range changes {
		if c == nil {
			continue
		}
		l, before := &v.Levels[level], &old.Levels[level].keyRanges
		l.keyRanges = keyRanges{cmp: v.Cmp, shared: v.shared}
		if !v.Cmp.IsBytewise() { // all are 0
			l.smallest = zeros(before.smallest, len(l.Files))
			l.largest = l.smallest
			continue
		}
		l.smallest = spliced(before.smallest, c, func(f *FileMeta) uint64 { return l.head(f.Smallest) })
		l.largest = spliced(before.largest, c, func(f *FileMeta) uint64 { return l.head(f.Largest) })
	}
}

// zeros returns n zeros, of those in have if there are enough.
func zeros(have []uint64, n int) []uint64 {
	if n <= cap(have) {
		return have[:n]
	}
	return make([]uint64, n, n+n/8)
}

// updateOverlaps keeps the ratios that the version before has: those of files that are new or above a
// change are computed again.
func (v *Version) updateOverlaps(old *Version, changes *[NumLevels]*levelChange) {
	for level := 1; level+1 < NumLevels; level++ {
		ratios := old.overlaps[level].Load()
		own, below := changes[level], changes[level+1]
		if ratios == nil || own == nil && below == nil {
			v.overlaps[level].Store(ratios)
			continue
		}
		var next []float64
		if own != nil {
			next = spliced(*ratios, own, func(f *FileMeta) float64 { return v.overlapOf(level, f) })
		} else {
			next = slices.Clone(*ratios)
		}
		if below != nil {
			v.recomputeOverlaps(level, old, below, next)
		}
		v.overlaps[level].Store(&next)
	}
}

// recomputeOverlaps computes the ratios of the files of level that overlap a change of the next level.
func (v *Version) recomputeOverlaps(level int, old *Version, below *levelChange, ratios []float64) {
	l := &v.Levels[level]
	done := -1 // the last index in a row that was computed
	for _, s := range below.steps {
		f := s.file
		if f == nil {
			f = old.Levels[level+1].Files[s.at]
		}
		for i := max(done+1, l.Find(base.UserKey(f.Smallest))); i < len(l.Files); i++ {
			if v.Cmp.Compare(base.UserKey(l.Files[i].Smallest), base.UserKey(f.Largest)) > 0 {
				break
			}
			ratios[i], done = v.overlapOf(level, l.Files[i]), i
		}
	}
}

// OverlapRatios returns, for each file of a level, the bytes of the next level that it overlaps as a multiple of its
// size. The level must not be 0 or the last one. Once the ratios are known, later versions have them too.
func (v *Version) OverlapRatios(level int) []float64 {
	if known := v.overlaps[level].Load(); known != nil {
		return *known
	}
	ratios := make([]float64, len(v.Levels[level].Files))
	for i, f := range v.Levels[level].Files {
		ratios[i] = v.overlapOf(level, f)
	}
	v.overlaps[level].Store(&ratios)
	return ratios
}

// overlapOf returns how many times its size f, of that level, overlaps in the next one.
func (v *Version) overlapOf(level int, f *FileMeta) float64 {
	overlap := TotalSize(v.Overlapping(level+1, base.UserKey(f.Smallest), base.UserKey(f.Largest)))
	return float64(overlap) / float64(max(f.Size, 1))
}
