package report

import "time"

// FlushInfo describes a flush.
type FlushInfo struct {
	FileNum  uint64 // the new table; 0 if there was nothing to write
	Bytes    uint64
	Entries  uint64
	Duration time.Duration
	Err      error
}

// CompactionInfo describes a compaction. BytesWritten, OutputTables, Subcompactions,
// ValuesDropped, ValuesExpired, Duration and Err are set at its end.
type CompactionInfo struct {
	Reason string
	// InputLevel and OutputLevel are NumLevels if values are collected; see db.TableOptions.SeparateValues.
	InputLevel, OutputLevel   int
	InputTables, OutputTables int
	BytesRead, BytesWritten   uint64
	TrivialMove               bool
	// Subcompactions is the number of pieces, divided by keys, in which the tables were
	// merged; 0 for a TrivialMove. See Options.Compaction.MaxConcurrent.
	Subcompactions int
	// ValuesDropped is the number of values that Options.Compaction.Filter dropped, and
	// ValuesExpired that of expired ones that were dropped. Both are 0 if the tables were
	// removed without being read, because all their values had expired.
	ValuesDropped, ValuesExpired uint64

	Duration time.Duration
	Err      error
}

// LoadInfo describes a load and its Commit.
type LoadInfo struct {
	// Entries counts tombstones too.
	Entries, Bytes uint64
	// Tables counts the tables put on each level; all 0 after an error.
	Tables [NumLevels]int
	// Duration is that of Commit alone.
	Duration time.Duration
	Err      error
}

// WriteStallInfo says why a write waited, and for how long.
type WriteStallInfo struct {
	// Reason is "level 0 has many tables" or "the last memtable fills" for writes that
	// were slowed, "level 0 is full" or "memtables wait for their flush" for those
	// that were stopped, or "level 0 is full, and compactions are paused".
	Reason   string
	Stopped  bool // false: slowed on purpose; true: stopped
	Duration time.Duration
}

// OpenAheadInfo describes the result of opening tables ahead.
type OpenAheadInfo struct {
	Tables   int   // open now, including those that a lookup opened
	Failed   int   // could not be opened; lookups that need them return the error
	Err      error // of the first that failed
	Duration time.Duration
}

// FilterInfo describes an unusable filter.
type FilterInfo struct {
	FileNum uint64
	Level   int // -1 if the newest version no longer contains the table
	// Policy is the name under which the table lists the filter, as it is in the file: quote
	// it. It is the last one of several, and "" if the list of filters itself is damaged.
	Policy string
	// Err says why. It is ErrCorruption for a filter that is damaged or of unknown layout,
	// and another error for a name that neither Options.Filters.Policy nor the store knows.
	Err error
	// Instead is the name of the table's filter that is used instead, "" if there is none and lookups read the table.
	Instead string
}
