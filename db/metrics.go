package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/manifest"
)

// NumLevels is the number of levels, LevelDB's seven.
const NumLevels = manifest.NumLevels

// Metrics is what the store counted since it was opened, and what it holds
// now. Every number is counted where the thing happens. The numbers of one
// Metrics are read one after another while the store goes on, so they may
// disagree by what happened meanwhile.
type Metrics struct {
	// Levels describes each level; lookups are counted for Get, GetTo and Has, not
	// for iterators.
	Levels [NumLevels]LevelMetrics

	// Gets counts lookups; GetsFound those that returned a value. MemtableHits
	// counts lookups answered by a memtable, a tombstone there included.
	Gets, GetsFound, MemtableHits uint64
	// MemtableSearches counts how often a lookup searched a memtable: it was not
	// empty, and its filter, if it has one, could not rule the key out. Those that
	// are no MemtableHits the filter did not spare.
	MemtableSearches uint64

	// Writes counts the batches applied, WriteBytes the bytes of their records.
	Writes, WriteBytes uint64
	// LogBytes is what was written to the log, its framing included. LogSyncs
	// counts its fsyncs; a group of writers shares one.
	LogBytes, LogSyncs uint64

	// Flushes and FlushBytes count memtables written as tables.
	Flushes, FlushBytes uint64
	// Compactions counts merges, TrivialMoves tables moved down as they were.
	// Subcompactions counts the pieces that the merges were done in: one each, where
	// none was divided.
	Compactions, Subcompactions, TrivialMoves uint64
	// CompactionBytesRead and CompactionBytesWritten count table bytes.
	CompactionBytesRead, CompactionBytesWritten uint64
	// Loads counts the loads committed, LoadTables and LoadBytes their tables.
	Loads, LoadTables, LoadBytes uint64

	// MemtableBytes is the memory of all memtables, one that waits for the active one to
	// be full included: the capacity of the arenas, the filters, and what guides searches.
	MemtableBytes uint64
	// MemtableLimit is the most that they may take: Options.Memtables.Size for the
	// active one and for each of Options.Memtables.MaxWaiting. Beyond go only a batch larger than a
	// write buffer, and what guides searches and insertions in random order: 1 %
	// of each and an eighth of the active one where entries take 16 + 100 bytes, a third of
	// the active one at most.
	MemtableLimit uint64
	// Memtables is the number of memtables, those waiting to be flushed included.
	Memtables int

	// BlockCacheCapacity and BlockCacheBytes are the block cache's budget and what
	// it holds, in bytes; BlockCacheBlocks counts its blocks. Of these,
	// BlockCacheCompressedBlocks and BlockCacheCompressedBytes are held compressed,
	// since room is short: see Options.Cache.Size.
	BlockCacheCapacity, BlockCacheBytes                   int64
	BlockCacheBlocks                                      int64
	BlockCacheCompressedBlocks, BlockCacheCompressedBytes int64
	// FilterBytes, RangeFilterBytes and IndexBytes are held by open tables, beside the block cache.
	// BlockCacheCharged is what they take of its capacity, if they do: see
	// Options.Cache.ChargeTables.
	FilterBytes, RangeFilterBytes, IndexBytes uint64
	BlockCacheCharged                         int64
	// OpenTables counts the tables whose file is open.
	OpenTables int
	// TablesOpened counts the openings of tables, for whatever purpose, one that was
	// closed for lack of room and opened again each time. OpeningReads and OpeningBytes
	// are what they read: as a rule the end of the file in one piece, with filter and
	// index.
	TablesOpened, OpeningReads, OpeningBytes uint64
	// TablesWithoutFilter, TablesWithUnknownFilter and TablesWithDamagedFilter
	// count, among OpenTables, those whose lookups no filter can spare: it was not
	// written, it is under names that neither Options.Filters.Policy nor the store itself
	// knows (or that hash bytes which Options.Comparer does not compare), or its
	// bytes are damaged. With filter.None nothing is asked, and nothing counted.
	TablesWithoutFilter, TablesWithUnknownFilter, TablesWithDamagedFilter int
	// UnknownFilters splits TablesWithUnknownFilter by the policy name that stands
	// in the tables; one that lists several counts under the last. Names are taken
	// from the files as they are: quote them. Nil if there are none.
	UnknownFilters map[string]int
	// FilterPolicies counts the OpenTables whose lookups ask a filter, by the name of
	// its policy. Nil if there are none.
	FilterPolicies map[string]int
	// FallbackFilters counts, among OpenTables, those whose best filter is damaged
	// and whose lookups ask another one of the table.
	FallbackFilters int

	// ObsoleteTables counts table files that only readers keep from deletion.
	ObsoleteTables int
	// OpenIterators and OpenSnapshots count what was not closed yet.
	OpenIterators, OpenSnapshots int

	// WriteStalls counts waits of writers for flush or compaction; WriteStallTime
	// is how long they took together, and WriteStallTotals splits both by reason, as
	// WriteStallInfo names it. WriteStallReason says what writers are
	// waiting for at this moment, "" if they are not.
	WriteStalls      uint64
	WriteStallTime   time.Duration
	WriteStallTotals map[string]WriteStallTotal // nil if there were none
	WriteStallReason string

	// LastSequence is the sequence number of the newest visible write.
	LastSequence uint64

	// TablesSetAside counts the inputs of compactions that met corruption. They are
	// read as before, but not compacted until the database is opened again.
	TablesSetAside int

	// BackgroundError is the error that ended writes or, if none did, that of the
	// last flush or compaction, which is being tried again, or else the corruption
	// that tables were set aside for; nil while all is well.
	BackgroundError error
}

// WriteStallTotal sums up the waits of writers for one reason. Nearly all of one
// wait is felt by one write, or by those of one group.
type WriteStallTotal struct {
	Stalls        uint64
	Time, Longest time.Duration
}

// LevelMetrics describes one level.
type LevelMetrics struct {
	// Tables and Bytes are what the level holds now.
	Tables int
	Bytes  uint64

	// Reads counts how often a lookup consulted a table of this level: its key was
	// within the table's range.
	Reads uint64
	// FilterChecks counts the reads that asked a filter. It is the sum of
	// FilterNegatives (the filter ruled the table out), FilterTruePositives (the
	// key was there, be it as a tombstone) and FilterFalsePositives (it was not).
	FilterChecks, FilterNegatives, FilterTruePositives, FilterFalsePositives uint64

	// RangeChecks counts how often an iterator with both bounds asked a table's filters of
	// ranges (Options.Filters.RangePolicies). It is the sum of RangeNegatives (the table was passed
	// over, which spared its index and at least one data block), RangeTruePositives (an
	// entry was found within the bounds, be it one that is not visible) and
	// RangeFalsePositives (there was none).
	RangeChecks, RangeNegatives, RangeTruePositives, RangeFalsePositives uint64

	// IndexReads counts index blocks that lookups read from disk by themselves. Most
	// come with the opening of their table, and count in Metrics.OpeningReads.
	IndexReads uint64
	// BlocksFromCache and BlocksFromDisk count the data blocks that lookups read.
	BlocksFromCache, BlocksFromDisk uint64
	// BytesFromDisk counts what these lookups read from disk, index and data.
	BytesFromDisk uint64
}

// Total returns the sums over all levels.
func (m *Metrics) Total() LevelMetrics {
	var t LevelMetrics
	for i := range m.Levels {
		t.add(&m.Levels[i])
	}
	return t
}

func (l *LevelMetrics) add(o *LevelMetrics) {
	l.Tables += o.Tables
	l.Bytes += o.Bytes
	l.Reads += o.Reads
	l.FilterChecks += o.FilterChecks
	l.FilterNegatives += o.FilterNegatives
	l.FilterTruePositives += o.FilterTruePositives
	l.FilterFalsePositives += o.FilterFalsePositives
	l.RangeChecks += o.RangeChecks
	l.RangeNegatives += o.RangeNegatives
	l.RangeTruePositives += o.RangeTruePositives
	l.RangeFalsePositives += o.RangeFalsePositives
	l.IndexReads += o.IndexReads
	l.BlocksFromCache += o.BlocksFromCache
	l.BlocksFromDisk += o.BlocksFromDisk
	l.BytesFromDisk += o.BytesFromDisk
}
