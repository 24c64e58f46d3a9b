package lookup

import (
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
)

// EstimateSize estimates the bytes of the entries with keys from start to limit, limit excluded, in
// tables and, if memtables is set, in memtables; nil means no bound.
func (f *Finder) EstimateSize(start, limit []byte, memtables bool) (e report.SizeEstimate, err error) {
	s := f.Ref()
	defer s.Version.Unref()
	s.Version.AllFiles(func(_ int, file *version.FileMeta) {
		if err == nil {
			var size uint64
			size, err = f.tables.ApproximateSize(file, start, limit)
			e.Tables += size
		}
	})
	if err != nil || !memtables {
		return e, err
	}
	for _, m := range s.Memtables() {
		e.Memtables += m.SizeBetween(start, limit)
	}
	return e, nil
}
