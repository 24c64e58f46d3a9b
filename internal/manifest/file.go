package manifest

import (
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// FileMeta is a table as a level holds it. What the MANIFEST says of it is fixed.
// Beside that it carries what choosing a compaction needs, and what the open-table
// cache attaches to it.
type FileMeta struct {
	Num  uint64
	Size uint64 // bytes
	// Smallest and Largest are the internal keys of the first and last entry.
	Smallest, Largest []byte

	// OldSuffix says that the file is called .sst; set before the FileMeta is
	// shared.
	OldSuffix bool

	// Counts is what is known of the table's entries; nil before it was written or opened
	// here, and where its writer did not count.
	Counts atomic.Pointer[TableCounts]

	// Seqs is which sequence numbers the table's entries have; nil before it was written
	// here or its properties were looked for.
	Seqs atomic.Pointer[SeqRange]

	// Compacting is set while a compaction has the file as input. Guarded by the
	// lock of whoever picks compactions.
	Compacting bool

	// Handle is what the open-table cache keeps of the table; this package does not look
	// at it. It is set before the FileMeta is shared, by SetOptions.NewHandle at the latest.
	Handle any

	refs atomic.Int32 // versions that name the file
}

// NewFileMeta returns the description of a table; smallest and largest are
// internal keys, kept by reference.
func NewFileMeta(num, size uint64, smallest, largest []byte) *FileMeta {
	return &FileMeta{Num: num, Size: size, Smallest: smallest, Largest: largest}
}

// newFileMetaCopy is NewFileMeta with copies of the keys.
func newFileMetaCopy(num, size uint64, smallest, largest []byte) *FileMeta {
	keys := append(append(make([]byte, 0, len(smallest)+len(largest)), smallest...), largest...)
	n := len(smallest)
	return NewFileMeta(num, size, keys[:n:n], keys[n:])
}

// Name returns the file's name without its directory.
func (f *FileMeta) Name() string {
	if f.OldSuffix {
		return base.FileName(base.FileOldTable, f.Num)
	}
	return base.FileName(base.FileTable, f.Num)
}

// String names the file without its keys, which never appear in a log.
func (f *FileMeta) String() string { return fmt.Sprintf("%s (%d bytes)", f.Name(), f.Size) }

// OverlapsUser reports whether the file's range of user keys meets
// [start, limit], both inclusive; nil is unbounded.
func (f *FileMeta) OverlapsUser(cmp *base.Comparer, start, limit []byte) bool {
	return (start == nil || cmp.Compare(base.UserKey(f.Largest), start) >= 0) &&
		(limit == nil || cmp.Compare(base.UserKey(f.Smallest), limit) <= 0)
}
