package txn

import (
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// ConflictInTables is Conflict for the tables of v that mayHave admits; the others are not read.
func (r *Reads) ConflictInTables(cache *tables.Cache, v *version.Version, n Numbers, mayHave func(f *version.FileMeta) bool) (found bool, err error) {
	for level := range v.Levels {
		for _, f := range v.Levels[level].Files {
			if !mayHave(f) {
				continue
			}
			run := tables.NewLevelIter(cache, r.Comparer, []*version.FileMeta{f}, sstable.IterOptions{})
			found, err := r.Conflict(run, n)
			err = errors.CombineErrors(err, run.Close())
			if err != nil {
				return false, errors.Wrap(base.NoSpace(err), "sievedb: commit: looking for changes of what the transaction read")
			}
			if found {
				return true, nil
			}
		}
	}
	return false, nil
}

// View is a state that a transaction's commit searches.
type View struct {
	Memtables []*memtable.Memtable
	Version   *version.Version // referenced by the caller
}

// AnyEntry reports whether the view has an entry at all for something that was read.
func (r *Reads) AnyEntry(cache *tables.Cache, in View) (bool, error) {
	if r.Empty() {
		return false, nil
	}
	for _, m := range in.Memtables {
		if found, _ := r.Conflict(m.NewIter(), AnyNumber); found {
			return true, nil
		}
	}
	return r.ConflictInTables(cache, in.Version, AnyNumber, r.touchesTable)
}

// touchesTable reports whether something was read in the range of a table.
func (r *Reads) touchesTable(f *version.FileMeta) bool {
	a := RangeOf(f)
	i, _ := slices.BinarySearchFunc(r.keys, a.Lower, r.Comparer.Compare)
	if i < len(r.keys) && r.reaches(&a, r.keys[i]) {
		return true
	}
	return slices.ContainsFunc(r.ranges, func(b Range) bool { _, ok := r.meet(&a, &b); return ok })
}

// ConflictUntraced reports whether what was read differs by one of the changes since the transaction
// pinned its state. A key that lost its tables had an entry then, and one that a table brought has one
// now. So keys without an entry, in the gaps of these ranges, have not changed.
func (r *Reads) ConflictUntraced(cache *tables.Cache, c Change, pinned, now View) (bool, error) {
	if found, err := r.Within(c.Gone).AnyEntry(cache, pinned); found || err != nil {
		return found, err
	}
	return r.Within(c.Came).AnyEntry(cache, now)
}
