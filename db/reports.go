package db

import (
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/report"
)

// NumLevels is the number of levels, LevelDB's seven.
const NumLevels = report.NumLevels

// The metrics and reports of a DB, what an EventListener gets, and the report of Repair; package
// report documents their fields.
type (
	// Metrics has the store's counts since it was opened, and its present state.
	Metrics = report.Metrics
	// LevelMetrics describes one level.
	LevelMetrics = report.LevelMetrics
	// CheckpointInfo describes a checkpoint that was made.
	CheckpointInfo = report.Checkpoint
	// IngestInfo describes tables that were ingested.
	IngestInfo = report.Ingest
	// Lag says what a follower lacks.
	Lag = report.Lag
	// LookupMetrics count lookups and how memtables answered them.
	LookupMetrics = report.LookupMetrics
	// WriteMetrics count writes and their log records.
	WriteMetrics = report.WriteMetrics
	// FlushMetrics count memtables written as tables.
	FlushMetrics = report.FlushMetrics
	// CompactionMetrics count compactions.
	CompactionMetrics = report.CompactionMetrics
	// ExpiryMetrics count values that have expired.
	ExpiryMetrics = report.ExpiryMetrics
	// LoadMetrics count loads.
	LoadMetrics = report.LoadMetrics
	// StallMetrics count waits of writers for flush or compaction.
	StallMetrics = report.StallMetrics
	// StallTotal sums up the waits of writers for one reason.
	StallTotal = report.StallTotal
	// MemtableMetrics describe the memtables.
	MemtableMetrics = report.MemtableMetrics
	// CacheMetrics describe the block cache.
	CacheMetrics = report.CacheMetrics
	// RunningCompaction describes a compaction that has begun and not ended.
	RunningCompaction = report.RunningCompaction
	// TableMetrics describe the tables and what the open ones keep in memory.
	TableMetrics = report.TableMetrics
	// ResourcesMetrics describe what the stores of a Resources use together.
	ResourcesMetrics = report.ResourcesMetrics
	// FlushInfo describes a flush.
	FlushInfo = report.FlushInfo
	// CompactionInfo describes a compaction.
	CompactionInfo = report.CompactionInfo
	// LoadInfo describes a load and its Commit.
	LoadInfo = report.LoadInfo
	// IngestMetrics count ingests.
	IngestMetrics = report.IngestMetrics
	// WriteStallInfo says why a write waited, and for how long.
	WriteStallInfo = report.WriteStallInfo
	// OpenAheadInfo describes the result of opening tables ahead.
	OpenAheadInfo = report.OpenAheadInfo
	// FilterInfo describes an unusable filter.
	FilterInfo = report.FilterInfo
	// Explanation describes one lookup.
	Explanation = report.Explanation
	// ExplainStep is one run of an Explanation.
	ExplainStep = report.ExplainStep
	// FilterReport says how well each filter works.
	FilterReport = report.FilterReport
	// TableFilterReport is about the filter of one table.
	TableFilterReport = report.TableFilterReport
	// LevelFilterReport is about the filters of a level.
	LevelFilterReport = report.LevelFilterReport
	// RangeFilterReport is about one range filter of a table.
	RangeFilterReport = report.RangeFilterReport
	// FilterFigures are sizes and expected rates of filters.
	FilterFigures = report.FilterFigures
	// FilterProbes counts the keys with which a report probed filters.
	FilterProbes = report.FilterProbes
	// FilterLookups counts the results of filters for lookups.
	FilterLookups = report.FilterLookups
	// FilterVerdict says in words how well a filter works.
	FilterVerdict = report.FilterVerdict
	// OpenReport describes what Open found and did.
	OpenReport = report.OpenReport
	// LogReport describes the content of one log.
	LogReport = report.LogReport
	// CheckReport describes what Check read and found.
	CheckReport = report.CheckReport
	// RepairReport describes what a repair found and did.
	RepairReport = report.RepairReport
	// RepairedFile is a file as a repair found it.
	RepairedFile = report.RepairedFile
	// RepairedRange is a range of keys that a repair could not give back completely.
	RepairedRange = report.RepairedRange
	// FileFate is the fate of a file in a repair.
	FileFate = report.FileFate
	// DiskUsage has the sizes of a database's files.
	DiskUsage = report.DiskUsage
	// SizeEstimate says about how many bytes the entries of a range use.
	SizeEstimate = report.SizeEstimate
	// LatencyMetrics says how long calls, commits and fsyncs took.
	LatencyMetrics = report.LatencyMetrics
	// LatencyHistogram has measured durations, and returns quantiles.
	LatencyHistogram = report.LatencyHistogram
	// LatencyBucket counts the durations between two bounds.
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
