package report

import "time"

// LookupMetrics count lookups and how memtables answered them; LevelMetrics counts what tables answered.
type LookupMetrics struct {
	// Count is the number of lookups, Found the number that returned a value.
	Count, Found uint64
	// MemtableHits counts lookups that a memtable answered, with a tombstone included.
	MemtableHits uint64
	// MemtableSearches counts how often a lookup searched a memtable: the memtable was not empty, and its filter, if it
	// has one, did not exclude the key. Searches beyond MemtableHits are those that the filter did not prevent.
	MemtableSearches uint64
}

// WriteMetrics count writes and their log records.
type WriteMetrics struct {
	// Batches counts the batches applied, Bytes the bytes of their records.
	Batches, Bytes uint64
	// LogBytes is the number of bytes written to the log, including its framing.
	// LogSyncs counts its fsyncs; a group of writers shares one.
	LogBytes, LogSyncs uint64
}

// TransactionMetrics count transactions that can write, those of Update, Modify and CompareAndSwap included.
type TransactionMetrics struct {
	// Commits counts those that were committed, also without writes. Conflicts counts commits that returned
	// ErrConflict, and Repeats the calls of functions that Update repeated because of one.
	Commits, Conflicts, Repeats uint64
}

// FlushMetrics count memtables written as tables.
type FlushMetrics struct {
	// Count is the number of memtables flushed, Bytes the size of their tables.
	Count, Bytes uint64
}

// CompactionMetrics count compactions.
type CompactionMetrics struct {
	// Count is the number of merges. Subcompactions counts their pieces: one for each merge that was not divided.
	Count, Subcompactions uint64
	// TrivialMoves counts tables that moved down a level unchanged.
	TrivialMoves uint64
	// BytesRead and BytesWritten count table bytes, those of value tables included.
	BytesRead, BytesWritten uint64
	// TablesSetAside counts the inputs of compactions that found corruption. They are read
	// as before, but not compacted until the database is opened again.
	TablesSetAside int
	// TablesToMerge is how many tables fewer there will be when many small ones of the last level are merged, which
	// is done while nothing else is due. It is 0 if there are none: at most 4,096, or a fourth of the size for new
	// tables on average.
	TablesToMerge int
	// Pauses counts the pauses in effect: calls of PauseCompactions whose resume was not called yet.
	Pauses int
	// ValuesDropped counts the values that Options.Compaction.Filter dropped.
	ValuesDropped uint64
	// Running describes the compactions that are running, in the order in which they began.
	Running []RunningCompaction
}

// RunningCompaction describes a compaction that has begun and not ended.
type RunningCompaction struct {
	Reason                  string
	InputLevel, OutputLevel int
	InputTables             int
	InputBytes              uint64
	// BytesRead and BytesWritten are the progress so far, counted after each 64 KiB of entries. The
	// end is near when BytesRead reaches InputBytes.
	BytesRead, BytesWritten uint64
	// Duration is the time since the beginning.
	Duration time.Duration
}

// LoadMetrics count loads.
type LoadMetrics struct {
	// Count is the number of loads committed, Tables and Bytes that of their tables.
	Count, Tables, Bytes uint64
}

// IngestMetrics count calls of Ingest that added tables.
type IngestMetrics struct {
	// Count is the number of calls. Linked, Copied and Rewritten count the tables that were given, by what
	// became of them.
	Count, Linked, Copied, Rewritten uint64
	// BytesLinked counts the bytes that the store got without writing them, BytesWritten those of copies
	// and of new tables.
	BytesLinked, BytesWritten uint64
}

// StallMetrics count waits of writers for flush or compaction.
type StallMetrics struct {
	// Count is the number of waits, Duration their total length.
	Count    uint64
	Duration time.Duration
	// ByReason splits both by the reasons of WriteStallInfo. It is nil if there were no waits.
	ByReason map[string]StallTotal
	// CurrentReason says what writers are waiting for now, "" if they are not.
	CurrentReason string
	// L0Slowdown and L0Stop are the numbers of tables of level 0 from which writes are slowed and stopped.
	L0Slowdown, L0Stop int
}

// The reasons for which writes wait. Slowed writes and stopped writes have different ones.
const (
	SlowLevel0    = "level 0 has many tables"
	SlowMemtables = "the last memtable fills"
	SlowValues    = "value tables have much garbage"
	StopLevel0    = "level 0 is full"
	StopPaused    = "level 0 is full, and compactions are paused"
	StopMemtables = "memtables wait for their flush"
	StopMemory    = "the store's part of the shared memory waits for its flush"
)

// StallReasons returns all reasons that StallMetrics may have.
func StallReasons() []string {
	return []string{SlowLevel0, SlowMemtables, SlowValues, StopLevel0, StopPaused, StopMemtables, StopMemory}
}

// StallTotal sums up the waits of writers for one reason. Nearly all of one wait is that of
// one write, or of the writes of one group.
type StallTotal struct {
	Count             uint64
	Duration, Longest time.Duration
}

// MemtableMetrics describe the memtables.
type MemtableMetrics struct {
	// Count is the number of memtables, including those waiting to be flushed.
	Count int
	// Bytes is the memory of all memtables, including one that waits for the active one
	// to become full: the capacity of the arenas, the filters, and the search guides.
	Bytes uint64
	// Limit is the maximum of Bytes: db.MemtableOptions.Size for the active one and for each of
	// db.MemtableOptions.MaxWaiting. Only two things exceed it: a batch larger than a memtable,
	// and the guides of searches and of insertions in random order. These are 1 % of each
	// memtable, and for entries of 16 + 100 bytes an eighth of the active one, at most half.
	Limit uint64
}

// CacheMetrics describe the block cache.
type CacheMetrics struct {
	// Capacity is the cache's budget and Bytes its present size, in bytes. Blocks is its number of blocks.
	Capacity, Bytes, Blocks int64
	// CompressedBlocks and CompressedBytes are the part of Blocks and Bytes that is held
	// compressed, because space is short: see db.CacheOptions.Size.
	CompressedBlocks, CompressedBytes int64
	// TableBytes is the part of Capacity that filters and indexes of open tables use instead of blocks. It is 0 while
	// db.CacheOptions.Memory has room for both, unless db.CacheOptions.ChargeTables is set.
	TableBytes int64
	// Memory is the budget of blocks, filters and indexes together: db.CacheOptions.Memory, or with
	// shared resources db.ResourcesOptions.CacheSize, which bounds those of all databases.
	Memory int64
}

// TableMetrics describe the tables, and the filters and indexes that the open ones keep in memory.
type TableMetrics struct {
	// ValueTables is the number of value tables (TableOptions.SeparateValues), ValueBytes their size, and
	// ValueGarbage how much of that nothing refers to, as estimated from the sizes of the values. It leaves out the
	// values to which tables still refer with entries that are deleted, replaced or expired, before a compaction drops
	// them: at most about a fifth of all, some seconds after the last write and when no snapshot needs them.
	ValueTables              int
	ValueBytes, ValueGarbage uint64

	// Open counts the tables whose file is open.
	Open int
	// Obsolete counts table files that only readers keep from deletion.
	Obsolete int

	// Openings counts how often a table was opened for any purpose; a table that was closed
	// to make room and opened again counts each time. OpeningReads and OpeningBytes are the
	// reads for that: usually one, of the end of the file with filter and index.
	Openings, OpeningReads, OpeningBytes uint64

	// Prefetches counts how often the system was asked to read a table into the page cache, because lookups read many
	// of its blocks from the device, and PrefetchedBytes the bytes of those tables that were not there. See
	// internal/limit/prefetch. Both are 0 on systems other than Linux 6.5 or later.
	Prefetches, PrefetchedBytes uint64

	// FilterBytes, RangeFilterBytes and IndexBytes are the memory of open tables.
	FilterBytes, RangeFilterBytes, IndexBytes uint64

	// MemoryBytes is the memory of filters and indexes of all tables, including those that only
	// iterators keep open, and MemoryLimit its bound, a part of CacheMetrics.Memory. With shared
	// resources the bound is that of all databases. ClosedForMemory counts the tables that were closed
	// because of it. MemoryNeeded estimates what all tables would use if they were open: a larger
	// MemoryLimit is of no use. It is 0 while no table is open with its index.
	MemoryBytes, MemoryLimit, MemoryNeeded int64
	ClosedForMemory                        uint64

	// WithoutFilter, WithUnknownFilter and WithDamagedFilter count the open tables that every lookup must read because
	// no filter can exclude keys. The filter was not written; or its names are unknown to db.FilterOptions.Policy and
	// to the store (or hash bytes that Options.Comparer does not compare); or its bytes are damaged. With filter.None
	// no filter is used, and none is counted.
	WithoutFilter, WithUnknownFilter, WithDamagedFilter int
	// WithFallbackFilter counts the open tables whose best filter is damaged, and whose
	// lookups use another filter of the table.
	WithFallbackFilter int
	// UnknownFilters splits WithUnknownFilter by the policy name in the tables; a table that lists several counts under
	// the last. Names are as they are in the files: quote them. It is nil if there are none.
	UnknownFilters map[string]int
	// FilterPolicies counts the open tables whose lookups use a filter, by the name of its
	// policy. It is nil if there are none.
	FilterPolicies map[string]int
}
