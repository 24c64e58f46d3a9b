package db

import (
	"bytes"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/counters"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// tableSearch is a lookup on its way through the tables of a read state. The Lookup
// is no part of it: the compiler would have it escape with the key, which goes to
// comparers, and allocate it.
type tableSearch struct {
	target manifest.Target
	c      *counters.Stripe // nil for an Explanation
	// ruledOut are the tables whose filters denied the key and that were not counted
	// yet.
	ruledOut counters.Path

	// found says that a table holds the key, as a tombstone perhaps: value and kind.
	// plain, that this is a value in a block of the cache, behind a filter, and was
	// not counted yet.
	found, plain bool
	kind         base.Kind
	trailer      uint64 // of the entry found
	value        []byte
	answer       *manifest.FileMeta // the table that holds it
}

// findInTables asks the tables that may hold the key, level by level.
func (d *DB) findInTables(s *readState, lookup *sstable.Lookup, c *counters.Stripe, x *Explanation) ([]byte, base.Kind, error) {
	t := tableSearch{c: c}
	var inRange bool
	if t.target, inRange = s.version.Target(lookup.UserKey()); inRange {
		for level := range s.version.Levels {
			l := &s.version.Levels[level]
			if len(l.Files) == 0 {
				continue
			}
			first := 0
			if level > 0 {
				first = l.Seek(t.target)
			}
			var err error
			if level == 0 && !s.version.Level0InOrder() {
				err = d.findNewest(s, &t, lookup, l, x)
			} else {
				err = d.findInLevel(s, &t, lookup, level, l, first, x)
			}
			if t.found || err != nil {
				if t.end(level, err) {
					counters.SampleTables(s.version, lookup, t.answer)
				}
				return t.value, t.kind, err
			}
		}
	}
	if c != nil && c.CountAbsent(t.ruledOut) {
		counters.SampleTables(s.version, lookup, nil)
	}
	return nil, base.KindDelete, nil
}

// end counts a search that a table of level answered, or that failed, and says whether
// it is one of the samples.
func (t *tableSearch) end(level int, err error) (sample bool) {
	switch {
	case t.c == nil:
	case err != nil:
		t.c.CountNegatives(t.ruledOut)
	case t.plain:
		return t.c.CountPlain(t.ruledOut.With(level))
	default:
		return t.c.CountAnswer(t.ruledOut, t.kind)
	}
	return false
}

// findInLevel asks the tables of a level that may hold the key, from number i on,
// until one does.
func (d *DB) findInLevel(s *readState, t *tableSearch, lookup *sstable.Lookup, level int, l *manifest.Level, i int, x *Explanation) error {
	for ; i < len(l.Files); i++ {
		if !l.Covers(i, t.target) {
			if level > 0 {
				break
			}
			continue
		}
		if err := d.findInTable(s, t, lookup, level, l.Files[i], x); t.found || err != nil {
			return err
		}
		// A table may end in the middle of the key's versions (LevelDB once wrote
		// such): then the older ones begin the next table.
		if level > 0 && !l.EndsWith(i, t.target) {
			break
		}
	}
	return nil
}

// findNewest asks all tables of a level 0 whose order is not known to be that of their
// sequence numbers, and finds the newest version in any of them.
func (d *DB) findNewest(s *readState, t *tableSearch, lookup *sstable.Lookup, l *manifest.Level, x *Explanation) error {
	for i, f := range l.Files {
		if !l.Covers(i, t.target) {
			continue
		}
		one := tableSearch{target: t.target, c: t.c, ruledOut: t.ruledOut}
		err := d.findInTable(s, &one, lookup, 0, f, x)
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
		if t.found && t.trailer == one.trailer && tables.ValuesConflict(t.trailer, t.value, one.value) {
			return tables.ErrTwinsDiffer(t.answer.Name(), f.Name(), t.trailer)
		}
		// Of equal ones the first counts, which is in the table with the greater number.
		if !t.found || one.trailer > t.trailer {
			t.found, t.kind, t.trailer, t.answer = true, one.kind, one.trailer, f
			t.value = bytes.Clone(one.value) // the next table may use the lookup's memory
		}
	}
	if s.version.Level0OrderOpen() {
		for i, f := range l.Files {
			if l.Covers(i, t.target) {
				d.tables.LearnSeqs(f)
			}
		}
		s.version.LearnOrder()
	}
	return nil
}

// findInTable asks one table. That its filter denies the key is noted in t.ruledOut,
// and all that there is to do then.
func (d *DB) findInTable(s *readState, t *tableSearch, lookup *sstable.Lookup, level int, f *manifest.FileMeta, x *Explanation) error {
	if x != nil {
		return d.explainTable(s, t, lookup, level, f, x)
	}
	r, err := d.tables.Get(f)
	if err != nil {
		return d.openError(s, err)
	}
	if r.Denies(lookup) {
		t.denied(level)
		return nil
	}
	res, err := r.GetUndenied(lookup)
	if err != nil {
		return err
	}
	if res.Found {
		_, t.kind = base.SplitTrailer(res.Trailer)
		t.found, t.trailer, t.value, t.answer = true, res.Trailer, res.Value, f
	}
	if t.kind == base.KindSet && counters.Plain(&res) && t.ruledOut.HasRoom(level) {
		t.plain = true
	} else {
		t.c.CountRead(level, &res)
	}
	return nil
}

// denied notes that the filter of a table of level denies the key.
func (t *tableSearch) denied(level int) {
	switch {
	case t.ruledOut.HasRoom(level):
		t.ruledOut = t.ruledOut.With(level)
	case t.c != nil:
		t.c.CountDenied(level, 1)
	}
}
