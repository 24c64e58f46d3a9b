package db

import (
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// DiskUsage returns the sizes of the files in the database's directory, by what they are for. It asks the file system
// for each file, about a microsecond each, and reads the end of each log back to its last record, at most some
// megabytes. It may be called at any time. Files that come or go meanwhile may count or not.
func (d *DB) DiskUsage() (report.DiskUsage, error) {
	if d == nil || d.closed.Load() {
		return report.DiskUsage{}, ErrClosed
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	listed := map[uint64]bool{}
	s.Version.AllFiles(func(_ int, f *version.FileMeta) { listed[f.Num] = true })
	return dbdir.Measure(d.files.FS, d.files.Path, func(num uint64) bool { return listed[num] })
}

// FreeBytes returns how many bytes may still be written to the file system that holds the directory. known is false if
// that cannot be found out, and on a closed DB.
func (d *DB) FreeBytes() (n uint64, known bool) {
	if d == nil || d.closed.Load() {
		return 0, false
	}
	return vfs.FreeBytes(d.opts.FS, d.files.Path)
}

// ApproximateSize returns about how many bytes on disk the tables use for keys from start to
// limit, limit excluded; nil means no bound. It is 0 if limit is not after start. Entries that
// are only in memory do not count; EstimateSize counts them.
func (d *DB) ApproximateSize(start, limit []byte) (uint64, error) {
	e, err := d.estimateSize(start, limit, false)
	return e.Tables, err
}

// EstimateSize estimates the bytes of the entries with keys from start to limit, limit excluded, in
// tables and in memtables; nil means no bound. It is zero if limit is not after start. Of each table
// at a bound it reads the index, unless that is in memory. Ranges of a few blocks are off by a block
// for each level; in memtables, ranges of more than 256 entries are off by about a sixteenth.
func (d *DB) EstimateSize(start, limit []byte) (report.SizeEstimate, error) {
	return d.estimateSize(start, limit, true)
}

func (d *DB) estimateSize(start, limit []byte, memtables bool) (report.SizeEstimate, error) {
	if d == nil || d.closed.Load() {
		return report.SizeEstimate{}, ErrClosed
	}
	return d.finder.EstimateSize(start, limit, memtables)
}
