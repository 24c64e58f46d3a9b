package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/tracking"
	"github.com/sievedb/sievedb/sstable"
)

// EventListener has functions that the store calls when something happens. Nil fields are
// skipped. The goroutine that does the work calls them, which is one of the store's own or
// the caller's, possibly several at the same time, and never under a lock of the store. A
// slow function delays that work and everything that waits for it.
//
// The functions may read: every method of the DB, of iterators and of snapshots works, except
// those that may wait for such work. Put, Delete, Apply, SyncLog, Flush, Compact,
// UpgradeFilters without DryRun, Loader.Commit and Close do nothing and return ErrInListener,
// as do the other methods of a Loader while one of its calls is running. A function that
// needs one of these starts a goroutine that calls it, and does not wait for that goroutine.
// A panic in one of them ends the writes; see PanicError.
type EventListener struct {
	// FlushEnd is called after each flush attempt; Err is set if it failed.
	FlushEnd func(FlushInfo)
	// CompactionBegin and CompactionEnd are called before and after each compaction.
	CompactionBegin func(CompactionInfo)
	CompactionEnd   func(CompactionInfo)
	// LoadEnd is called after each Commit of a Loader with entries; Err is set if it failed.
	LoadEnd func(LoadInfo)
	// WriteStall is called after a write was slowed or stopped.
	WriteStall func(WriteStallInfo)
	// TableRemoved is called after a table file was deleted.
	TableRemoved func(fileNum uint64)
	// FilterUnusable is called once for each table whose best filter excludes nothing,
	// because it is damaged or of an unknown kind. Lookups use another filter of the table
	// or read the table, and their answers are right. It is called by the goroutine that
	// first needed the table, such as a Get's or an iterator's, which waits for it, or by the
	// one that opens tables ahead; other readers of the table do not wait.
	FilterUnusable func(FilterInfo)
	// TablesOpenedAhead is called once, when Options.Cache.OpenAhead has opened the tables,
	// unless Close came first. Without that option it is not called.
	TablesOpenedAhead func(OpenAheadInfo)
	// BackgroundError is called for each error that no call returns.
	BackgroundError func(error)
}

// FlushInfo describes a flush.
type FlushInfo struct {
	FileNum  uint64 // the new table; 0 if there was nothing to write
	Bytes    uint64
	Entries  uint64
	Duration time.Duration
	Err      error
}

// CompactionInfo describes a compaction. BytesWritten, OutputTables, Subcompactions,
// Duration and Err are set at its end.
type CompactionInfo struct {
	Reason                    string
	InputLevel, OutputLevel   int
	InputTables, OutputTables int
	BytesRead, BytesWritten   uint64
	TrivialMove               bool
	// Subcompactions is the number of pieces, divided by keys, in which the tables were
	// merged; 0 for a TrivialMove. See Options.Compaction.MaxConcurrent.
	Subcompactions int
	Duration       time.Duration
	Err            error
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
	// that were stopped.
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
	// Instead is the name of the table's filter that is used instead, "" if there is none
	// and lookups read the table.
	Instead string
}

// reportFilter logs that the best filter of a table is unusable, if it is, and notifies the
// listener, once for each table.
func (d *DB) reportFilter(f *manifest.FileMeta, status sstable.FilterStatus) {
	info, ok := unusableFilter(f, status)
	if !ok {
		return
	}
	if s := d.state(); s != nil { // nil while Open reads tables
		s.Version.Files(func(level int, other *manifest.FileMeta) {
			if other == f {
				info.Level = level
			}
		})
	}
	d.opts.logFilter(info)
	notify(d, d.opts.EventListener.FilterUnusable, info)
}

// unusableFilter describes the filter of a table if it is unusable and was not reported yet.
// Level is unknown.
func unusableFilter(f *manifest.FileMeta, status sstable.FilterStatus) (info FilterInfo, ok bool) {
	info = FilterInfo{FileNum: f.Num, Level: -1, Policy: status.Policy, Err: status.Err}
	switch {
	case status.State == sstable.FilterDamaged:
	case status.Err != nil:
		info.Policy, info.Instead = status.Damaged, status.Policy
	case status.State == sstable.FilterUnknown:
		info.Err = errors.Newf("sievedb: filter policy %q is not known here; pass it in Options.Filters.Policy, or compact to give the tables filters of their own", status.Policy)
	default:
		return info, false
	}
	return info, tables.Of(f).ReportFilter()
}

// logFilter logs an unusable filter.
func (o *Options) logFilter(info FilterInfo) {
	o.Logger.Warn("the filter of a table is unusable", "table", info.FileNum, "level", info.Level, "policy", info.Policy, "instead", info.Instead, "err", info.Err)
}

// notify calls a function of the listener if it is set.
func notify[T any](d *DB, f func(T), what T) { tracking.Call(&d.listenerCalls, f, what) }
