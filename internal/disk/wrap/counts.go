package wrap

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
)

// Counts are the numbers of operations on files of some kinds. Reads, writes and syncs count even if
// they fail, because they reached the disk; the others count only if they succeed.
type Counts struct {
	Reads, ReadBytes   uint64 // calls of ReadAt, and bytes read
	Writes, WriteBytes uint64 // calls of Write, and bytes written
	Syncs              uint64 // calls of vfs.File.Sync
	Opens              uint64 // files opened for reading
	Creates            uint64
	Removes            uint64
	Renames            uint64 // counted for the kind of the new name
	// OpenFiles is the number of files from Open and Create that are not closed yet. The
	// result of Sub has the change of that number.
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

// Sub returns the difference of c and earlier counts.
func (c Counts) Sub(earlier Counts) Counts {
	return Counts{
		Reads: c.Reads - earlier.Reads, ReadBytes: c.ReadBytes - earlier.ReadBytes,
		Writes: c.Writes - earlier.Writes, WriteBytes: c.WriteBytes - earlier.WriteBytes,
		Syncs: c.Syncs - earlier.Syncs, Opens: c.Opens - earlier.Opens, Creates: c.Creates - earlier.Creates,
		Removes: c.Removes - earlier.Removes, Renames: c.Renames - earlier.Renames,
		OpenFiles: c.OpenFiles - earlier.OpenFiles,
	}
}

// Each base.FileKind has a bucket, and other names have one more.
const (
	otherBucket = base.NumFileKinds
	numBuckets  = otherBucket + 1
)

// Snapshot has the counts of a Counting at some moment.
type Snapshot struct {
	Total    Counts
	Other    Counts // of files whose names do not belong to the format
	DirSyncs uint64 // calls of SyncDir, including failed ones
	kinds    [otherBucket]Counts
}

// Of returns the sum of the counts of those kinds of file.
func (s Snapshot) Of(kinds ...base.FileKind) Counts {
	var sum Counts
	for _, k := range kinds {
		sum = sum.plus(s.kinds[k])
	}
	return sum
}

// Sub returns the difference of s and an earlier Snapshot of the same Counting.
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
	_                                       [48]byte // pads to 128 bytes, so kinds share no cache line
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
