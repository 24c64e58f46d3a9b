package version

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// FileMeta is a table of a level. Its description in the MANIFEST is constant. It also has the
// information for choosing compactions (package pick), and a handle of the table cache.
type FileMeta struct {
	Num  uint64
	Size uint64 // bytes
	// Smallest and Largest are the internal keys of the first and last entry.
	Smallest, Largest []byte

	// The next ones are set before the FileMeta is shared, and do not change then.

	// Handle belongs to the table cache; this package does not use it. Owner.NewHandle makes those that are missing.
	Handle     any
	valueBytes uint64 // see ValueBytes
	origin     uint64 // see Origin; 0 means Num
	OldSuffix  bool   // the file has the suffix .sst
	Values     bool   // it is a value table
	Temporary  bool   // the file has a temporary name, and the table is in no version

	// Compacting is set while the file is an input of a compaction. It is guarded by the lock
	// of the caller that picks compactions.
	Compacting bool

	refs atomic.Int32 // the number of buckets of versions that contain the file; see roster

	// Seqs is the range of the entries' sequence numbers. It is nil until the table is written
	// here or its properties are read.
	Seqs atomic.Pointer[SeqRange]

	counts atomic.Pointer[TableCounts] // see Counts
	noted  atomic.Pointer[noted]       // learns of counts; nil until the table enters a version
}

// Origin returns the number of the table of a level that was written with these entries. It differs from Num only in
// copies that UpgradeFilters makes.
func (f *FileMeta) Origin() uint64 { return cmp.Or(f.origin, f.Num) }

// SetOrigin makes Origin return num, for a table of a level that has the entries of that table.
func (f *FileMeta) SetOrigin(num uint64) { f.origin = num }

// ValueBytes returns the number of bytes of the values of a value table, uncompressed.
func (f *FileMeta) ValueBytes() uint64 { return f.valueBytes }

// SetValueBytes makes it a value table with so many bytes of values.
func (f *FileMeta) SetValueBytes(n uint64) { f.Values, f.valueBytes = true, n }

// Counts returns the numbers of the table's entries. It is nil until the table is written or opened here, and if its
// writer did not count.
func (f *FileMeta) Counts() *TableCounts { return f.counts.Load() }

// SetCounts sets what Counts returns; c must not be changed any more. The owner of a version with the table learns it.
func (f *FileMeta) SetCounts(c *TableCounts) {
	f.counts.Store(c)
	if n := f.noted.Load(); n != nil {
		n.add(f, c)
	}
}

// Holds returns the bytes of the table and of the values to which it refers, as far as they are known.
func (f *FileMeta) Holds() uint64 {
	if c := f.Counts(); c != nil {
		return f.Size + c.Apart
	}
	return f.Size
}

// Gain returns what SetGain has set, nil before.
func (f *FileMeta) Gain() *Gain {
	if c := f.Counts(); c != nil {
		return c.gain
	}
	return nil
}

// SetGain sets the Gain of the table. It is weighed once.
func (f *FileMeta) SetGain(g *Gain) {
	c := TableCounts{}
	if known := f.Counts(); known != nil {
		c = *known
	}
	c.gain = g
	f.SetCounts(&c)
}

// UserBounds returns the user keys of the first and last entry.
func (f *FileMeta) UserBounds() (smallest, largest []byte) {
	return base.UserKey(f.Smallest), base.UserKey(f.Largest)
}

// InVersion reports whether a version contains the file.
func (f *FileMeta) InVersion() bool { return f.refs.Load() > 0 }

// NewFileMeta returns the FileMeta of a table. It retains smallest and largest, which are internal keys.
func NewFileMeta(num, size uint64, smallest, largest []byte) *FileMeta {
	return &FileMeta{Num: num, Size: size, Smallest: smallest, Largest: largest}
}

// Name returns the file's name without a directory.
func (f *FileMeta) Name() string {
	switch {
	case f.OldSuffix:
		return base.FileName(base.FileOldTable, f.Num)
	case f.Temporary:
		return base.FileName(base.FileTemp, f.Num)
	case f.Values:
		return base.FileName(base.FileValues, f.Num)
	}
	return base.FileName(base.FileTable, f.Num)
}

// String describes the file without its keys, which must never appear in a log.
func (f *FileMeta) String() string { return fmt.Sprintf("%s (%d bytes)", f.Name(), f.Size) }

// OverlapsUser reports whether the file's range of user keys overlaps [start, limit], both
// inclusive; nil means no bound.
func (f *FileMeta) OverlapsUser(cmp *base.Comparer, start, limit []byte) bool {
	return (start == nil || cmp.Compare(base.UserKey(f.Largest), start) >= 0) &&
		(limit == nil || cmp.Compare(base.UserKey(f.Smallest), limit) <= 0)
}

// TotalSize returns the bytes of files.
func TotalSize(files []*FileMeta) uint64 {
	var n uint64
	for _, f := range files {
		n += f.Size
	}
	return n
}
