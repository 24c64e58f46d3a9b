package db

import (
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/report"
)

// NumLevels is the number of levels, LevelDB's seven.
const NumLevels = report.NumLevels

// The metrics and reports of a DB, what an EventListener gets, and the report of Repair. The comments list the fields;
// package report describes them.
type (
	// Metrics has the store's counts since it was opened, and its present state. LevelMetrics, LookupMetrics and so
	// on describe the groups. Total adds the levels up. The fields:
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
	// LevelMetrics describes one level. Fields: Tables, Bytes, Reads, FilterChecks, FilterNegatives,
	// FilterTruePositives, FilterFalsePositives, RangeChecks, RangeNegatives, RangeTruePositives,
	// RangeFalsePositives, IndexReads, BlocksFromCache, BlocksFromDisk, BytesFromDisk.
	LevelMetrics = report.LevelMetrics
	// OptionChange is an option that differs from the recorded one. Fields: Option, Recorded, Opened.
	OptionChange = report.OptionChange
	// RecordedOption is an option that a database has recorded. Fields: Option, Value.
	RecordedOption = report.RecordedOption
	// CheckpointInfo describes a checkpoint that was made. Fields: Seq, Tables, Logs, BytesLinked, BytesCopied.
	CheckpointInfo = report.Checkpoint
	// IngestInfo describes tables that were ingested. Fields: Seq, Linked, Copied, Rewritten, Entries, BytesLinked,
	// BytesCopied, BytesRewritten, Tables, Duration, Err.
	IngestInfo = report.Ingest
	// Lag says what a follower lacks. Fields: Seq, Operations, Bytes, Time.
	Lag = report.Lag
	// LookupMetrics count lookups and how memtables answered them. Fields: Count, Found, MemtableHits,
	// MemtableSearches.
	LookupMetrics = report.LookupMetrics
	// WriteMetrics count writes and their log records. Fields: Batches, Bytes, LogBytes, LogSyncs.
	WriteMetrics = report.WriteMetrics
	// FlushMetrics count memtables written as tables. Fields: Count, Bytes.
	FlushMetrics = report.FlushMetrics
	// TransactionMetrics count transactions that can write. Fields: Commits, Conflicts, Repeats.
	TransactionMetrics = report.TransactionMetrics
	// CompactionMetrics count compactions. Fields: Count, Subcompactions, TrivialMoves, BytesRead, BytesWritten,
	// TablesSetAside, TablesToMerge, Pauses, ValuesDropped, Running.
	CompactionMetrics = report.CompactionMetrics
	// ExpiryMetrics count values that have expired. Fields: Hidden, ValuesDropped, TablesDropped, Time.
	ExpiryMetrics = report.ExpiryMetrics
	// LoadMetrics count loads. Fields: Count, Tables, Bytes.
	LoadMetrics = report.LoadMetrics
	// StallMetrics count waits of writers for flush or compaction. Fields: Count, Duration, ByReason, CurrentReason,
	// L0Slowdown, L0Stop.
	StallMetrics = report.StallMetrics
	// StallTotal sums up the waits of writers for one reason. Fields: Count, Duration, Longest.
	StallTotal = report.StallTotal
	// MemtableMetrics describe the memtables. Fields: Count, Bytes, Limit.
	MemtableMetrics = report.MemtableMetrics
	// CacheMetrics describe the block cache. Fields: Capacity, Bytes, Blocks, CompressedBlocks, CompressedBytes,
	// TableBytes, Memory.
	CacheMetrics = report.CacheMetrics
	// RunningCompaction describes a compaction that has begun and not ended. Fields: Reason, InputLevel,
	// OutputLevel, InputTables, InputBytes, BytesRead, BytesWritten, Duration.
	RunningCompaction = report.RunningCompaction
	// TableMetrics describe the tables and what the open ones keep in memory. Fields: ValueTables, ValueBytes, ValueGarbage,
	// Open, Obsolete, Openings,
	// OpeningReads, OpeningBytes, Prefetches, PrefetchedBytes, FilterBytes, RangeFilterBytes, IndexBytes,
	// MemoryBytes, MemoryLimit, MemoryNeeded, ClosedForMemory, WithoutFilter, WithUnknownFilter, WithDamagedFilter, WithFallbackFilter, UnknownFilters, FilterPolicies.
	TableMetrics = report.TableMetrics
	// ResourcesMetrics describe what the stores of a Resources use together. Fields: Stores, MaxStores, Cache,
	// OpenFiles, Memtables, Compactions.
	ResourcesMetrics = report.ResourcesMetrics
	// FlushInfo describes a flush. Fields: FileNum, Bytes, Entries, Duration, Err.
	FlushInfo = report.FlushInfo
	// CompactionInfo describes a compaction. Fields: Reason, InputLevel, OutputLevel, InputTables, OutputTables,
	// BytesRead, BytesWritten, TrivialMove, Subcompactions, ValuesDropped, ValuesExpired, Duration, Err.
	CompactionInfo = report.CompactionInfo
	// LoadInfo describes a load and its Commit. Fields: Entries, Bytes, Tables, Duration, Err.
	LoadInfo = report.LoadInfo
	// IngestMetrics count ingests. Fields: Count, Linked, Copied, Rewritten, BytesLinked, BytesWritten.
	IngestMetrics = report.IngestMetrics
	// WriteStallInfo says why a write waited, and for how long. Fields: Reason, Stopped, Duration.
	WriteStallInfo = report.WriteStallInfo
	// OpenAheadInfo describes the result of opening tables ahead. Fields: Tables, Failed, Err, Duration.
	OpenAheadInfo = report.OpenAheadInfo
	// FilterInfo describes an unusable filter. Fields: FileNum, Level, Policy, Err, Instead.
	FilterInfo = report.FilterInfo
	// Explanation describes one lookup. Fields: Found, Deleted, Expired, Steps, DiskReads, ReadsSaved, ReadsWasted,
	// BytesRead, OpeningReads, OpeningBytes, Duration.
	Explanation = report.Explanation
	// SlowLookup is a lookup that took long. Fields: Time, Key, KeyBytes, Explanation.
	SlowLookup = report.SlowLookup
	// ExplainStep is one run of an Explanation. Fields: Run, Level, FileNum, Bytes, Smallest, Largest, Filter,
	// FilterPolicy, Found, Opened, OpeningReads, OpeningBytes, IndexSearched, IndexRead, IndexBytes, BlockFromCache,
	// BlockFromDisk, BlockBytes, BytesRead, Duration, OpenTime, FilterTime, IndexTime, SearchTime.
	ExplainStep = report.ExplainStep
	// FilterReport says how well each filter works. Fields: Tables, Levels.
	FilterReport = report.FilterReport
	// TableFilterReport is about the filter of one table. Fields: Level, FileNum, Name, Bytes, Policy, Layout,
	// FilterFigures, BlockBytes, Probes, Lookups, Ranges, Verdict, Detail, Advice. Methods: LookupsToRepay.
	TableFilterReport = report.TableFilterReport
	// LevelFilterReport is about the filters of a level. Fields: Level, Tables, FilterFigures, Probes, Lookups,
	// RangeBytes, RangeBitsPerKey, Ranges, Verdicts.
	LevelFilterReport = report.LevelFilterReport
	// RangeFilterReport is about one range filter of a table. Fields: Policy, Bytes, BitsPerKey, State, Verdict,
	// Detail, Advice.
	RangeFilterReport = report.RangeFilterReport
	// FilterFigures are sizes and expected rates of filters. Fields: FilterBytes, Keys, BitsPerKey, Predicted.
	FilterFigures = report.FilterFigures
	// FilterProbes counts the keys with which a report probed filters. Fields: Absent, Passed, Stored, Denied.
	// Methods: Rate.
	FilterProbes = report.FilterProbes
	// FilterLookups counts the results of filters for lookups. Fields: Negatives, TruePositives, FalsePositives,
	// BytesSaved, ReadsPerByte, BytesPerByte. Methods: Asked.
	FilterLookups = report.FilterLookups
	// FilterVerdict says in words how well a filter works. Methods: Advice.
	FilterVerdict = report.FilterVerdict
	// OpenReport describes what Open found and did. Fields: Created, Manifest, ManifestBytesDropped, ClosedCleanly,
	// MissingLog, OptionsChanged, Losses, Logs, FilesRemoved, TablesSetAside.
	OpenReport = report.OpenReport
	// LogReport describes the content of one log. Fields: Name, Records, Entries, Tail, BytesDropped, Reason,
	// GapBefore, BytesSkipped, RecordsSkipped, SetAside.
	LogReport = report.LogReport
	// CheckReport describes what Check read and found. Fields: Tables, Entries, Bytes, Unread, Twins, Faults.
	CheckReport = report.CheckReport
	// RepairReport describes what a repair found and did. Fields: Dir, Healthy, DryRun, Incomplete, Interrupted,
	// EntriesLost, BytesLost, Ranges, Manifest, ManifestProblem, MayResurrect, Files, TablesWritten, BytesWritten,
	// EntriesWritten, EntriesDuplicate, EntriesConflicting, EntriesShadowed, EntriesTooLarge, ValuesLost,
	// EntriesFilled, LastSequence, NewManifest, LogsAbandoned.
	RepairReport = report.RepairReport
	// RepairedFile is a file as a repair found it. Fields: Name, Fate, Level, LostName, Reason, Damage, Bytes,
	// BytesLost, Blocks, BlocksLost, Entries.
	RepairedFile = report.RepairedFile
	// RepairedRange is a range of keys that a repair could not give back completely. Fields: First, Last.
	RepairedRange = report.RepairedRange
	// FileFate is the fate of a file in a repair.
	FileFate = report.FileFate
	// DiskUsage has the sizes of a database's files. Fields: Tables, UnlistedTables, Logs, LogsReserved, Manifest,
	// Lost, Changes, Other, Total.
	DiskUsage = report.DiskUsage
	// SizeEstimate says about how many bytes the entries of a range use. Fields: Tables, Memtables.
	SizeEstimate = report.SizeEstimate
	// LatencyMetrics says how long calls, commits and fsyncs took. Fields: Get, Put, SyncedPut, Commit,
	// SyncedCommit, Fsync. Methods: Named.
	LatencyMetrics = report.LatencyMetrics
	// LatencyHistogram has measured durations, and returns quantiles. Fields: Count, Sum, Buckets. Methods: Mean,
	// Quantile.
	LatencyHistogram = report.LatencyHistogram
	// LatencyBucket counts the durations between two bounds. Fields: From, To, Count.
	LatencyBucket = report.LatencyBucket
)

// LatencySample is the number of lookups, and of writes without a sync, for each one that is
// measured.
const LatencySample = report.LatencySample

// The verdicts on filters; package report says what they mean.
const (
	VerdictDamaged           = report.VerdictDamaged
	VerdictDenies            = report.VerdictDenies
	VerdictUnknown           = report.VerdictUnknown
	VerdictNoFilter          = report.VerdictNoFilter
	VerdictSaturated         = report.VerdictSaturated
	VerdictCollisions        = report.VerdictCollisions
	VerdictHighRate          = report.VerdictHighRate
	VerdictNeverQueried      = report.VerdictNeverQueried
	VerdictGood              = report.VerdictGood
	VerdictOff               = report.VerdictOff
	VerdictUnopened          = report.VerdictUnopened
	VerdictRangeUnknown      = report.VerdictRangeUnknown
	VerdictRangeMatchesEmpty = report.VerdictRangeMatchesEmpty
	VerdictRangeNeverQueried = report.VerdictRangeNeverQueried
	VerdictRangeNotQueried   = report.VerdictRangeNotQueried
)

// The fates of files in a repair; package report says what they mean.
const (
	FileKept      = report.FileKept
	FileRewritten = report.FileRewritten
	FileUnused    = report.FileUnused
	FileMissing   = report.FileMissing
)

// The levels of the reports are those of the files.
var _ [NumLevels]struct{} = [manifest.NumLevels]struct{}{}
