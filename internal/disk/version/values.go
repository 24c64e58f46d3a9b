package version

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// ValuesLevel is, in edits and where tables are listed, the level of value tables. They have values of entries of other
// tables, and lookups do not search them; see base.ValueRef.
const ValuesLevel = NumLevels

// ValueTableSize is the size in bytes from which on no further values are added to a value table.
const ValueTableSize = 64 << 20

// ValueTable says which table has the values of an ID. A value table begins with its own number as its ID. The table
// that receives the live values of others takes over their IDs, so that no reference changes.
type ValueTable struct {
	ID   uint64
	File *FileMeta
	// Live is the number of bytes of values, uncompressed, that tables of the version refer to by the ID. It is never 0.
	Live uint64
}

// Garbage returns how many bytes of the file nothing refers to, estimated from t.Live, the live bytes of all of its
// IDs.
func (t ValueTable) Garbage() uint64 {
	all := t.File.ValueBytes()
	if t.Live >= all {
		return 0
	}
	return uint64(float64(t.File.Size) * (1 - float64(t.Live)/float64(all)))
}

// ValueBytes returns the sizes of all value tables, and how much of them nothing refers to.
func (v *Version) ValueBytes() (size, garbage uint64) { return v.valueSize, v.garbage }

// ValueDelta is a change of a ValueTable in an edit.
type ValueDelta struct {
	ID   uint64
	File uint64 // the number of the value table that has the ID from this edit on; 0 if that does not change
	Live int64  // is added to ValueTable.Live
}

// ValueTableOf returns the value table of an ID, or nil.
func (v *Version) ValueTableOf(id uint64) *FileMeta {
	if i, ok := findValues(v.Values, id); ok {
		return v.Values[i].File
	}
	return nil
}

// LiveBytes returns how many bytes of the values of an ID tables refer to.
func (v *Version) LiveBytes(id uint64) uint64 {
	if i, ok := findValues(v.Values, id); ok {
		return v.Values[i].Live
	}
	return 0
}

// TableNumbered returns the table of that number, also a value table, or nil.
func (v *Version) TableNumbered(num uint64) *FileMeta {
	e, _ := v.roster.find(num)
	return e.file
}

func findValues(values []ValueTable, id uint64) (int, bool) {
	return slices.BinarySearchFunc(values, id, func(t ValueTable, id uint64) int { return cmp.Compare(t.ID, id) })
}

// ValueTableCount returns the number of value tables.
func (v *Version) ValueTableCount() int { return len(v.valueFiles) }

// ValueFiles returns the value tables in ascending order of their numbers, which are their IDs here, with the sums of
// their live bytes. The result must not be changed.
func (v *Version) ValueFiles() []ValueTable { return v.valueFiles }

// AllFiles calls f for each table, level by level, and then for each value table.
func (v *Version) AllFiles(f func(level int, file *FileMeta)) {
	v.Files(f)
	for _, t := range v.ValueFiles() {
		f(ValuesLevel, t.File)
	}
}

// valueState is what edits change: the tables of IDs, and the same by file.
type valueState struct {
	ids, files []ValueTable
}

// after returns the state after deltas, in the order of their edits; it sorts them. find returns a value table by its
// number, or nil. A version has as many value tables as all others together may have, so both arrays are copied, as
// those of levels are.
func (s valueState) after(deltas []ValueDelta, find func(num uint64) *FileMeta) (next valueState, err error) {
	slices.SortStableFunc(deltas, func(a, b ValueDelta) int { return cmp.Compare(a.ID, b.ID) })
	next.ids = make([]ValueTable, 0, len(s.ids)+len(deltas))
	rest := s.ids
	byFile := map[*FileMeta]int64{}
	for len(deltas) > 0 {
		n := 1
		for n < len(deltas) && deltas[n].ID == deltas[0].ID {
			n++
		}
		i, had := findValues(rest, deltas[0].ID)
		next.ids = append(next.ids, rest[:i]...)
		t := ValueTable{ID: deltas[0].ID}
		if rest = rest[i:]; had {
			t, rest = rest[0], rest[1:]
			byFile[t.File] -= int64(t.Live)
		}
		if t, err = t.after(deltas[:n], find); err != nil {
			return next, err
		}
		if t.Live > 0 {
			next.ids = append(next.ids, t)
			byFile[t.File] += int64(t.Live)
		}
		deltas = deltas[n:]
	}
	next.ids = append(next.ids, rest...)
	next.files = s.filesAfter(byFile)
	return next, nil
}

// after returns what deltas, which are of one ID, make of it. Live is 0 if nothing refers to it any more.
func (t ValueTable) after(deltas []ValueDelta, find func(num uint64) *FileMeta) (ValueTable, error) {
	live, file := int64(t.Live), uint64(0)
	for _, d := range deltas {
		if d.File > 0 {
			file = d.File
		}
		sum := live + d.Live
		if (sum < live) != (d.Live < 0) || sum < 0 {
			return t, base.Corruptf("version", -1, "%d bytes of values are added to the %d of ID %d", d.Live, live, d.ID)
		}
		live = sum
	}
	if t.Live = uint64(live); live > 0 && (file > 0 || t.File == nil) {
		if t.File = find(file); t.File == nil {
			return t, base.Corruptf("version", -1, "the values of ID %d are in table %d, which is no value table", t.ID, file)
		}
	}
	return t, nil
}

// filesAfter returns the files with other live bytes, without those that have none.
func (s valueState) filesAfter(changes map[*FileMeta]int64) []ValueTable {
	next := make([]ValueTable, 0, len(s.files)+len(changes))
	for _, t := range s.files {
		d, changed := changes[t.File]
		delete(changes, t.File)
		if t.Live += uint64(d); !changed || t.Live > 0 {
			next = append(next, t)
		}
	}
	for f, live := range changes {
		if live > 0 {
			next = append(next, ValueTable{f.Num, f, uint64(live)})
		}
	}
	slices.SortFunc(next, func(a, b ValueTable) int { return cmp.Compare(a.ID, b.ID) })
	return next
}

// setValues gives v, whose roster is complete, the value tables that follow those of before.
func (v *Version) setValues(before *Version, removed, added []rosterEntry, deltas []ValueDelta) error {
	isValues := func(e rosterEntry) bool { return e.level == ValuesLevel }
	v.Values, v.valueFiles, v.valueSize, v.garbage = before.Values, before.valueFiles, before.valueSize, before.garbage
	if len(deltas) == 0 && !slices.ContainsFunc(removed, isValues) && !slices.ContainsFunc(added, isValues) {
		return nil
	}
	find := func(num uint64) *FileMeta {
		if e, ok := v.roster.find(num); ok && e.level == ValuesLevel {
			return e.file
		}
		return nil
	}
	next, err := valueState{before.Values, before.valueFiles}.after(deltas, find)
	if err != nil {
		return err
	}
	v.Values, v.valueFiles, v.valueSize, v.garbage = next.ids, next.files, 0, 0
	for _, t := range v.valueFiles {
		v.valueSize, v.garbage = v.valueSize+t.File.Size, v.garbage+t.Garbage()
	}
	for _, e := range removed {
		if i, still := findValues(v.valueFiles, e.num); isValues(e) && still && v.valueFiles[i].File == e.file {
			return base.Corruptf("version", -1, "%d bytes of values refer to value table %d, which is removed", v.valueFiles[i].Live, e.num)
		}
	}
	for _, e := range added {
		if _, ok := findValues(v.valueFiles, e.num); isValues(e) && !ok {
			return base.Corruptf("version", -1, "nothing refers to value table %d", e.num)
		}
	}
	for _, t := range before.valueFiles { // in what was added, each ID was looked for
		if _, ok := findValues(v.valueFiles, t.ID); !ok && find(t.ID) == t.File {
			return base.Corruptf("version", -1, "nothing refers to value table %d any more", t.ID)
		}
	}
	return nil
}

// DropUnused adds to a change of v the removal of the value tables to which nothing refers any more, and takes back the
// addition of those to which nothing refers: while a collection ran, everything that it found may have died.
func (c *Change) DropUnused(v *Version) error {
	if len(c.Values) == 0 {
		return nil
	}
	fresh := map[uint64]*FileMeta{}
	for _, a := range c.Added {
		if a.Level == ValuesLevel {
			fresh[a.File.Num] = a.File
		}
	}
	after, err := valueState{v.Values, v.valueFiles}.after(slices.Clone(c.Values), func(num uint64) *FileMeta {
		if i, ok := findValues(v.valueFiles, num); ok {
			return v.valueFiles[i].File
		}
		return fresh[num]
	})
	if err != nil {
		return err
	}
	c.Added = slices.DeleteFunc(c.Added, func(a LevelFile) bool {
		_, used := findValues(after.files, a.File.Num)
		return a.Level == ValuesLevel && !used
	})
	for _, t := range v.valueFiles {
		if _, ok := findValues(after.files, t.ID); !ok && !slices.Contains(c.Deleted, DeletedFile{ValuesLevel, t.ID}) {
			c.Deleted = append(c.Deleted, DeletedFile{ValuesLevel, t.ID})
		}
	}
	return nil
}
