package report

import "time"

// NumLevels is the number of levels, LevelDB's seven.
const NumLevels = 7

// Metrics has the store's counts since it was opened, and its present state. Every number is
// counted where the event happens. The numbers of one Metrics are read one after another
// while the store works, so they may differ by what happened meanwhile.
type Metrics struct {
	// Levels describes each level. Lookups are counted for Get, GetTo and Has, not for iterators.
	Levels [NumLevels]LevelMetrics

	// Lookups counts calls of Get, GetTo and Has, and the keys of MultiGet.
	Lookups LookupMetrics
	// Writes counts batches and their log records.
	Writes WriteMetrics
	// Transactions counts commits and conflicts of transactions.
	Transactions TransactionMetrics
	// Flushes counts memtables written as tables.
	Flushes FlushMetrics
	// Compactions counts merges and moves of tables.
	Compactions CompactionMetrics
	// Expiry counts values that have expired.
	Expiry ExpiryMetrics
	// Loads counts the committed loads.
	Loads LoadMetrics
	// Ingests counts the ingests.
	Ingests IngestMetrics
	// Stalls counts waits of writers for flush or compaction.
	Stalls StallMetrics
	// Latency says how long lookups, writes and fsyncs took.
	Latency LatencyMetrics
	// Memtables describes the memtables.
	Memtables MemtableMetrics
	// Cache describes the block cache.
	Cache CacheMetrics
	// Tables describes the open tables, their filters and their indexes.
	Tables TableMetrics

	// Opened is when the store was opened.
	Opened time.Time
	// LastSequence is the sequence number of the newest visible write.
	LastSequence uint64
	// OpenIterators, OpenSnapshots and OpenTransactions count those that were not closed yet.
	OpenIterators, OpenSnapshots, OpenTransactions int

	// BackgroundError is the error that ended writes or, if none did, that of the last flush or compaction, which is
	// being retried, or else the corruption because of which tables were set aside. Of a follower it is the error of
	// the last Refresh. It is nil if there is none. The first success of the same kind of work, also by Flush or
	// Compact, ends the error of a flush or compaction, and so does it if no compaction is due any more.
	BackgroundError error
}

// LevelMetrics describes one level.
type LevelMetrics struct {
	// Tables and Bytes are the present number and size of the level's tables.
	Tables int
	Bytes  uint64

	// Reads counts how often a lookup consulted a table of this level: its key was within the table's range.
	Reads uint64
	// FilterChecks counts the reads that used a filter. It is the sum of FilterNegatives (the
	// filter excluded the table), FilterTruePositives (the table contained the key, possibly
	// as a tombstone) and FilterFalsePositives (it did not).
	FilterChecks, FilterNegatives, FilterTruePositives, FilterFalsePositives uint64

	// RangeChecks counts how often an iterator with both bounds used a table's range filters
	// (Options.Filters.RangePolicies). It is the sum of RangeNegatives (the table was skipped,
	// which saved its index and at least one data block), RangeTruePositives (an entry was
	// found within the bounds, visible or not) and RangeFalsePositives (there was none).
	RangeChecks, RangeNegatives, RangeTruePositives, RangeFalsePositives uint64

	// IndexReads counts index blocks that lookups read from disk separately. Most are read
	// with the opening of their table and count in TableMetrics.OpeningReads.
	IndexReads uint64
	// BlocksFromCache and BlocksFromDisk count the data blocks that lookups read.
	BlocksFromCache, BlocksFromDisk uint64
	// BytesFromDisk counts the index and data bytes that these lookups read from disk.
	BytesFromDisk uint64
}

// Total returns the sums over all levels. Value tables are in none; see AllTables.
func (m *Metrics) Total() LevelMetrics {
	var t LevelMetrics
	for i := range m.Levels {
		t.add(&m.Levels[i])
	}
	return t
}

// AllTables returns the number of all tables and their bytes, with value tables.
func (m *Metrics) AllTables() (tables int, bytes uint64) {
	t := m.Total()
	return t.Tables + m.Tables.ValueTables, t.Bytes + m.Tables.ValueBytes
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
