package db

import (
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/report"
)

// NumLevels is the number of levels, LevelDB's seven.
const NumLevels = report.NumLevels

// The metrics and reports of a DB that programs name. Package report describes them, and has the types of their parts
// and of what other methods return.
type (
	// Metrics has the store's counts since it was opened, and its present state. report.LevelMetrics, LookupMetrics and
	// so on describe the groups. Total adds the levels up. The fields:
	//
	//   - Levels: Tables, Bytes, Reads, FilterChecks, FilterNegatives, FilterTruePositives, FilterFalsePositives,
	//     RangeChecks, RangeNegatives, RangeTruePositives, RangeFalsePositives, IndexReads, BlocksFromCache,
	//     BlocksFromDisk, BytesFromDisk
	//   - Lookups: Count, Found, MemtableHits, MemtableSearches
	//   - Writes: Batches, Bytes, LogBytes, LogSyncs
	//   - Transactions: Commits, Conflicts, Repeats
	//   - Flushes: Count, Bytes
	//   - Compactions: Count, Subcompactions, TrivialMoves, BytesRead, BytesWritten, TablesSetAside, TablesToMerge,
	//     Pauses, ValuesDropped, Running
	//   - Expiry: Hidden, ValuesDropped, TablesDropped, Time
	//   - Loads: Count, Tables, Bytes
	//   - Ingests: Count, Linked, Copied, Rewritten, BytesLinked, BytesWritten
	//   - Stalls: Count, Duration, ByReason, CurrentReason, L0Slowdown, L0Stop
	//   - Latency: Get, Put, SyncedPut, Commit, SyncedCommit, Fsync
	//   - Memtables: Count, Bytes, Limit
	//   - Cache: Capacity, Bytes, Blocks, CompressedBlocks, CompressedBytes, TableBytes,
	//     Memory
	//   - Tables: ValueTables, ValueBytes, ValueGarbage, Open, Obsolete, Openings, OpeningReads, OpeningBytes, Prefetches, PrefetchedBytes, FilterBytes,
	//     RangeFilterBytes, IndexBytes, MemoryBytes, MemoryLimit, MemoryNeeded, ClosedForMemory, WithoutFilter, WithUnknownFilter, WithDamagedFilter, WithFallbackFilter,
	//     UnknownFilters, FilterPolicies
	//   - Opened, LastSequence, OpenIterators, OpenSnapshots, OpenTransactions, BackgroundError
	Metrics = report.Metrics
	// FlushInfo describes a flush. Fields: FileNum, Bytes, Entries, Duration, Err.
	FlushInfo = report.FlushInfo
	// CompactionInfo describes a compaction. Fields: Reason, InputLevel, OutputLevel, InputTables, OutputTables,
	// BytesRead, BytesWritten, TrivialMove, Subcompactions, ValuesDropped, ValuesExpired, Duration, Err.
	CompactionInfo = report.CompactionInfo
	// WriteStallInfo says why a write waited, and for how long. Fields: Reason, Stopped, Duration.
	WriteStallInfo = report.WriteStallInfo
	// Explanation describes one lookup. Fields: Found, Deleted, Expired, Steps, DiskReads, ReadsSaved, ReadsWasted,
	// BytesRead, OpeningReads, OpeningBytes, Duration.
	Explanation = report.Explanation
	// FilterReport says how well each filter works. Fields: Tables, Levels.
	FilterReport = report.FilterReport
	// CheckReport describes what Check read and found. Fields: Tables, Entries, Bytes, Unread, Twins, Faults.
	CheckReport = report.CheckReport
	// RepairReport describes what a repair found and did. Fields: Dir, Healthy, DryRun, Incomplete, Interrupted,
	// EntriesLost, BytesLost, Ranges, Manifest, ManifestProblem, MayResurrect, Files, TablesWritten, BytesWritten,
	// EntriesWritten, EntriesDuplicate, EntriesConflicting, EntriesShadowed, EntriesTooLarge, ValuesLost,
	// EntriesFilled, LastSequence, NewManifest, LogsAbandoned.
	RepairReport = report.RepairReport
)

// LatencySample is the number of lookups, and of writes without a sync, for each one that is measured.
const LatencySample = report.LatencySample

// The levels of the reports are those of the files.
var _ [NumLevels]struct{} = [version.NumLevels]struct{}{}
