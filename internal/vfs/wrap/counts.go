package wrap

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// Counts are the operations on some kinds of file. Reads, writes and syncs count even if they fail,
// because they reached the disk; the others count if they succeed.
type Counts struct {
	Reads, ReadBytes   uint64 // calls of ReadAt, and bytes that came
	Writes, WriteBytes uint64 // calls of Write, and bytes that went
	Syncs              uint64 // calls of vfs.File.Sync
	Opens              uint64 // files opened for reading
	Creates            uint64
	Removes            uint64
	Renames            uint64 // counted for the kind of the new name
	// OpenFiles is the number of files, from Open and Create, not closed yet; in
	// a difference, how many more than before.
	OpenFiles int64
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		Reads: c.Reads + d.Reads, ReadBytes: c.ReadBytes + d.ReadBytes,
		Writes: c.Writes + d.Writes, WriteBytes: c.WriteBytes + d.WriteBytes,
		Syncs: c.Syncs + d.Syncs, Opens: c.Opens + d.Opens, Creates: c.Creates + d.Creates,
		Removes: c.Removes + d.Removes, Renames: c.Renames + d.Renames,
		OpenFiles: c.OpenFiles + d.OpenFiles,
	}
}

// Sub returns what was counted since earlier.
func (c Counts) Sub(earlier Counts) Counts {
	return Counts{
		Reads: c.Reads - earlier.Reads, ReadBytes: c.ReadBytes - earlier.ReadBytes,
		Writes: c.Writes - earlier.Writes, WriteBytes: c.WriteBytes - earlier.WriteBytes,
		Syncs: c.Syncs - earlier.Syncs, Opens: c.Opens - earlier.Opens, Creates: c.Creates - earlier.Creates,
		Removes: c.Removes - earlier.Removes, Renames: c.Renames - earlier.Renames,
		OpenFiles: c.OpenFiles - earlier.OpenFiles,
	}
}

// There is a bucket for each base.FileKind, and one more for other names.
const (
	otherBucket = base.NumFileKinds
	numBuckets  = otherBucket + 1
)

// Snapshot is what a Counting has counted up to a moment, a plain value.
type Snapshot struct {
	Total    Counts
	Other    Counts // files whose names are not the format's
	DirSyncs uint64 // calls of SyncDir, failed ones too
	kinds    [otherBucket]Counts
}

// Of returns the counts of files of those kinds together.
func (s Snapshot) Of(kinds ...base.FileKind) Counts {
	var sum Counts
	for _, k := range kinds {
		sum = sum.plus(s.kinds[k])
	}
	return sum
}

// Sub returns what was counted since earlier, a Snapshot of the same Counting.
func (s Snapshot) Sub(earlier Snapshot) Snapshot {
	s.Total = s.Total.Sub(earlier.Total)
	s.Other = s.Other.Sub(earlier.Other)
	s.DirSyncs -= earlier.DirSyncs
	for i := range s.kinds {
		s.kinds[i] = s.kinds[i].Sub(earlier.kinds[i])
	}
	return s
}

// bucket counts the operations on one kind of file.
type bucket struct {
	reads, readBytes, writes, writeBytes    atomic.Uint64
	syncs, opens, creates, removes, renames atomic.Uint64
	openFiles                               atomic.Int64
	_                                       [48]byte // to 128 bytes: kinds share no cache line
}

func (b *bucket) load() Counts {
	return Counts{
		Reads: b.reads.Load(), ReadBytes: b.readBytes.Load(),
		Writes: b.writes.Load(), WriteBytes: b.writeBytes.Load(),
		Syncs: b.syncs.Load(), Opens: b.opens.Load(), Creates: b.creates.Load(),
		Removes: b.removes.Load(), Renames: b.renames.Load(),
		OpenFiles: b.openFiles.Load(),
	}
}
