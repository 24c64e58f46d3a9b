package lookup

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// FindOwn returns the newest write of key by a bulk transaction: in mem, which may be nil, or in tables. found
// is false if it has not written the key, and the error is ErrNotFound if it has deleted it, or if the value
// has expired. The value is as that of Find.
func (f *Finder) FindOwn(
	lookup *sstable.Lookup, key []byte, mem *memtable.Memtable, runs tables.PrivateRuns,
) (value []byte, found bool, err error) {
	kind := base.KindDelete
	if mem != nil {
		value, kind, found = mem.Get(key, base.MaxSeq)
	}
	if !found && len(runs) > 0 {
		lookup.Init(key, base.MaxSeq)
		f.hash.set(lookup)
		var res sstable.Result
		if res, err = runs.Find(f.tables, lookup); err != nil {
			return nil, false, f.final(err)
		}
		value, found = res.Value, res.Found
		_, kind = base.SplitTrailer(res.Trailer)
	}
	switch {
	case !found:
		return nil, false, nil
	case kind == base.KindDelete:
		return nil, true, base.ErrNotFound
	case f.expiry != nil:
		value, err = f.open(key, value, nil)
	}
	return value, true, err
}
