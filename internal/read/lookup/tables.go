package lookup

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/sstable"
)

// tableSearch is a lookup on its way through the tables of a read state. It does not contain
// the Lookup: that would escape with the key, which goes to comparers, and be allocated.
type tableSearch struct {
	target version.Target
	c      *counters.Stripe
	// ruledOut are the tables whose filters excluded the key and that are not counted yet.
	ruledOut counters.Path

	// found says that a table has the key, possibly as a tombstone: value and kind. plain
	// says that it is a value in a cached block of a table with a filter, and not counted yet.
	found, plain bool
	kind         base.Kind
	trailer      uint64 // of the entry found
	value        []byte
	answer       *version.FileMeta // the table that contains it
}

// findInTables searches the tables that may contain the key, level by level.
func (f *Finder) findInTables(s *State, lookup *sstable.Lookup, c *counters.Stripe) ([]byte, base.Kind, error) {
	t := tableSearch{c: c}
	var inRange bool
	if t.target, inRange = s.Version.Target(lookup.UserKey()); inRange {
		for level := range s.Version.Levels {
			l := &s.Version.Levels[level]
			if len(l.Files) == 0 {
				continue
			}
			first := 0
			if level > 0 {
				first = l.Seek(t.target)
			}
			var err error
			if level == 0 && !s.Version.Level0InOrder() {
				err = f.findNewest(s, &t, lookup, l)
			} else {
				err = f.findInLevel(s, &t, lookup, level, l, first)
			}
			if t.kind == base.KindRef && err == nil {
				err = f.follow(s, lookup, &t, level)
			}
			if t.found || err != nil {
				if t.end(level, err) {
					c.SampleTables(s.Version, lookup, t.answer)
				}
				return t.value, t.kind, err
			}
		}
	}
	if c.CountAbsent(t.ruledOut) {
		c.SampleTables(s.Version, lookup, nil)
	}
	return nil, base.KindDelete, nil
}

// follow replaces the reference that a search has found by the value, unless only the key is needed.
func (f *Finder) follow(s *State, lookup *sstable.Lookup, t *tableSearch, level int) error {
	t.kind = base.KindSet
	if lookup.KeyOnly {
		return nil
	}
	res, err := f.tables.TryValue(s.Version, lookup, lookup.UserKey(), t.value)
	t.value = res.Value
	t.c.CountBlocks(level, &res)
	return f.openError(s, err)
}

// end counts a search that a table of level answered, or that failed, and reports whether it is one of the samples.
func (t *tableSearch) end(level int, err error) (sample bool) {
	switch {
	case err != nil:
		t.c.CountNegatives(t.ruledOut)
	case t.plain:
		return t.c.CountPlain(t.ruledOut.With(level))
	default:
		return counters.IsSample(t.c.CountAnswer(t.ruledOut, t.kind))
	}
	return false
}

// findInLevel searches the tables of a level that may contain the key, from number i on, until one does.
func (f *Finder) findInLevel(s *State, t *tableSearch, lookup *sstable.Lookup, level int, l *version.Level, i int) error {
	for ; i < len(l.Files); i++ {
		if !l.Covers(i, t.target) {
			if level > 0 {
				break
			}
			continue
		}
		if err := f.findInTable(s, t, lookup, level, l.Files[i]); t.found || err != nil {
			return err
		}
		// A table may end in the middle of the key's versions (LevelDB once wrote such
		// tables); then the older versions begin the next table.
		if level > 0 && !l.EndsWith(i, t.target) {
			break
		}
	}
	return nil
}

// findNewest searches all tables of a level 0 that is not known to be in the order of sequence
// numbers, and finds the newest version in any of them.
func (f *Finder) findNewest(s *State, t *tableSearch, lookup *sstable.Lookup, l *version.Level) error {
	lookup.KeyOnly = false // values of twins are compared
	for i, table := range l.Files {
		if !l.Covers(i, t.target) {
			continue
		}
		one := tableSearch{target: t.target, c: t.c, ruledOut: t.ruledOut}
		err := f.findInTable(s, &one, lookup, 0, table)
		t.ruledOut = one.ruledOut
		if err != nil {
			return err
		}
		if !one.found {
			continue
		}
		if one.plain {
			t.c.CountPlainRead(0)
		}
		if err := t.takeNewer(one.trailer, one.value, table); err != nil {
			return err
		}
	}
	f.learnOrder(s.Version, lookup.UserKey())
	return nil
}

// takeNewer takes an entry for the key from table f, unless the search already has a newer one.
func (t *tableSearch) takeNewer(trailer uint64, value []byte, f *version.FileMeta) error {
	if t.found && t.trailer == trailer && tables.ValuesConflict(trailer, t.value, value) {
		return tables.ErrTwinsDiffer(t.answer.Name(), f.Name(), trailer)
	}
	// Of equal entries the first one counts; it is in the table with the greater number.
	if !t.found || trailer > t.trailer {
		_, t.kind = base.SplitTrailer(trailer)
		t.found, t.trailer, t.answer = true, trailer, f
		t.value = bytes.Clone(value) // the next table may use the lookup's memory
	}
	return nil
}

// learnOrder finds out whether level 0 is in order, after a lookup of key, if that is unknown.
func (f *Finder) learnOrder(v *version.Version, key []byte) {
	if !v.Level0OrderUnknown() {
		return
	}
	for level, table := range v.MayHold(key) {
		if level > 0 {
			break
		}
		f.tables.LearnSeqs(table)
	}
	v.LearnOrder()
}

// findInTable searches one table. If its filter excludes the key, t.ruledOut records it.
func (f *Finder) findInTable(s *State, t *tableSearch, lookup *sstable.Lookup, level int, table *version.FileMeta) error {
	r, err := f.tables.Get(table)
	if err != nil {
		return f.openError(s, err)
	}
	if r.Denies(lookup) {
		t.denied(level)
		return nil
	}
	res, err := r.GetAfterFilter(lookup)
	if err != nil {
		return err
	}
	if res.Found {
		_, t.kind = base.SplitTrailer(res.Trailer)
		t.found, t.trailer, t.value, t.answer = true, res.Trailer, res.Value, table
	}
	if t.kind == base.KindSet && counters.Plain(&res) && t.ruledOut.HasRoom(level) {
		t.plain = true
	} else {
		t.c.CountRead(level, &res)
	}
	return nil
}

// denied records that the filter of a table of level excludes the key.
func (t *tableSearch) denied(level int) {
	switch {
	case t.ruledOut.HasRoom(level):
		t.ruledOut = t.ruledOut.With(level)
	default:
		t.c.CountDenied(level, 1)
	}
}
