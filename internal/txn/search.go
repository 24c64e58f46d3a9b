package txn

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// ConflictInTables is Conflict for the tables of v. writtenSince reports whether a table may have
// entries above start; the others are not read.
func (r *Reads) ConflictInTables(cache *tables.Cache, v *manifest.Version, start uint64, writtenSince func(f *manifest.FileMeta, seq uint64) bool) (found bool, err error) {
	for level := range v.Levels {
		for _, f := range v.Levels[level].Files {
			if !writtenSince(f, start) {
				continue
			}
			run := tables.NewLevelIter(cache, r.Comparer, []*manifest.FileMeta{f}, sstable.IterOptions{})
			found, err := r.Conflict(run, start)
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
