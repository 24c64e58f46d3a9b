package report

import (
	"strings"
	"time"
)

// Explanation describes one lookup: every run that it consulted, in order. A run whose key
// range excludes the key is not consulted and not listed.
type Explanation struct {
	// Found says whether the key has a value; Deleted that a tombstone answered; Expired that a
	// value answered that has expired, so that readers do not find it.
	Found, Deleted, Expired bool
	// Steps are the runs consulted, the answering one last. If the tables of level 0 are not in order of age, as after
	// another program's repair, all that cover the key are consulted, and the newest entry found answers.
	Steps []ExplainStep
	// DiskReads counts the index and data blocks read from disk, BytesRead their bytes. They exclude what opening a
	// table read, which is done once for all lookups: OpeningReads and OpeningBytes. ReadsSaved counts the tables whose
	// filter saved the lookup a data block. ReadsWasted counts those that do not contain the key, but whose filter
	// passed or that had none.
	DiskReads, ReadsSaved, ReadsWasted    int
	BytesRead, OpeningReads, OpeningBytes uint64
	// Duration is the total time, including some 100 ns a step for reading the clock.
	Duration time.Duration
}

// SlowLookup is a lookup that took long, explained as it happened.
type SlowLookup struct {
	// Time is when it began.
	Time time.Time
	// Key is a copy of the first KiB of the key, KeyBytes the length of the whole.
	Key      []byte
	KeyBytes int
	// Explanation has no key ranges.
	Explanation *Explanation
}

// ExplainStep is one run of an Explanation.
type ExplainStep struct {
	// Run is "memtable", "immutable memtable", "table" or, if the value is apart from its key, "value table".
	Run string
	// Level, FileNum and Bytes describe a table; otherwise they are -1 and zeros. A value table is in no level.
	// Smallest and Largest are copies of the user keys at the ends of its range and belong to the caller.
	Level             int
	FileNum           uint64
	Bytes             uint64
	Smallest, Largest []byte
	// Filter is the verdict: "absent", "maybe" or "none" (the run has no filter, or is an empty memtable). FilterPolicy
	// is the name of the policy of the filter that lookups of the table use, empty for none and for a memtable.
	Filter, FilterPolicy string
	// Found says that the run contains the key, possibly as a tombstone.
	Found bool
	// Opened says that the table was not open. Opening it took OpeningReads reads of OpeningBytes bytes in total.
	Opened                     bool
	OpeningReads, OpeningBytes uint64
	// IndexSearched says that the filter did not exclude the key, so the index was searched. IndexRead says that the
	// index was read from disk separately, not with the opening of the table as usual; IndexBytes are its bytes then.
	IndexSearched, IndexRead bool
	IndexBytes               uint64
	// BlockFromCache and BlockFromDisk say where the data block came from, BlockBytes its size in the file in either
	// case. None is set if the lookup needed no block. BytesRead counts all bytes from disk, including the index.
	BlockFromCache, BlockFromDisk bool
	BlockBytes, BytesRead         uint64
	// Duration is the time of the step: OpenTime for opening the table, FilterTime for its
	// filter, IndexTime for getting its index into memory, and SearchTime for searching
	// index and data block, including the read. A memtable's is not divided.
	Duration                                    time.Duration
	OpenTime, FilterTime, IndexTime, SearchTime time.Duration
}

// String returns the explanation as lines for people: one for each run, with its reads and
// times indented below, and the totals.
func (x *Explanation) String() string {
	var b strings.Builder
	for i := range x.Steps {
		x.Steps[i].write(&b)
	}
	x.writeSum(&b)
	return b.String()
}
