package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/internal/tracking"
	"github.com/sievedb/sievedb/sstable"
)

// EventListener holds functions that the store calls when something happens.
// Nil fields are skipped. They are called by the goroutine that does the work, one of
// the store's own or that of a call, one at a time or several at once, and never
// under a lock of the store; a slow one delays that work and all that waits for it.
//
// They may read: every method of the DB and of iterators and snapshots works, but for
// those that may wait for such work. Put, Delete, Apply, SyncLog, Flush, Compact, UpgradeFilters
// without DryRun, Loader.Commit and Close return ErrInListener, and do nothing; so
// do the other methods of a Loader of which a call is under way. A function
// that needs one of these starts a goroutine that calls it, and does not wait for that one.
// A panic in one of them ends the writes; see PanicError.
type EventListener struct {
	// FlushEnd is told of each memtable written to a table, or not.
	FlushEnd func(FlushInfo)
	// CompactionBegin and CompactionEnd frame each compaction.
	CompactionBegin func(CompactionInfo)
	CompactionEnd   func(CompactionInfo)
	// LoadEnd is told of each Commit of a Loader that had something to commit.
	LoadEnd func(LoadInfo)
	// WriteStall is told when writes were slowed or stopped, after the wait.
	WriteStall func(WriteStallInfo)
	// TableRemoved is told of each table file that was deleted.
	TableRemoved func(fileNum uint64)
	// FilterUnusable is told of each table whose best filter rules nothing out,
	// because it is damaged or nobody here can read it: lookups ask another filter of
	// the table or read the table instead, and answer right. It is called once for a table while the database is
	// open, by the goroutine that first needed the table, a Get's or an iterator's
	// perhaps, which waits for it, or by the one that opens tables ahead; others that read the table do not.
	FilterUnusable func(FilterInfo)
	// TablesOpenedAhead is told once that what Options.Cache.OpenAhead asks for is done,
	// unless Close came first. Without that option it is not called.
	TablesOpenedAhead func(OpenAheadInfo)
	// BackgroundError is told of each error that no caller would see otherwise.
	BackgroundError func(error)
}

// FlushInfo describes a flush.
type FlushInfo struct {
	FileNum  uint64 // the new table; 0 where nothing was left to write
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
	// Subcompactions is in how many pieces, divided by keys, the tables were merged; 0
	// for a TrivialMove. See Options.Compaction.MaxConcurrent.
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
	Stopped  bool // false: slowed on purpose; true: it could not go on
	Duration time.Duration
}

// OpenAheadInfo says what became of the tables that were to be opened ahead.
type OpenAheadInfo struct {
	Tables   int   // open now, those included that a lookup had opened by itself
	Failed   int   // could not be opened; lookups that need them are told why
	Err      error // of the first that failed
	Duration time.Duration
}

// FilterInfo describes a filter that is of no use.
type FilterInfo struct {
	FileNum uint64
	Level   int // -1 where the newest version does not name the table any more
	// Policy is the name that the table lists the filter under, as it stands in the
	// file: quote it. Of several it is the last; it is "" where the list of filters
	// itself is damaged.
	Policy string
	// Err says why. It is ErrCorruption for a filter that is damaged or has no known
	// shape, and another error for a name that neither Options.Filters.Policy nor the store
	// knows.
	Err error
	// Instead is the name of the table's filter that is asked instead, "" where
	// there is none and lookups read the table.
	Instead string
}

// reportFilter logs that the best filter of a table is unusable, if so, and notifies the
// listener, once a table.
func (d *DB) reportFilter(f *manifest.FileMeta, status sstable.FilterStatus) {
	info, ok := unusableFilter(f, status)
	if !ok {
		return
	}
	if s := d.state.Load(); s != nil { // nil while Open reads tables
		s.version.Files(func(level int, other *manifest.FileMeta) {
			if other == f {
				info.Level = level
			}
		})
	}
	d.opts.logFilter(info)
	tell(d, d.opts.EventListener.FilterUnusable, info)
}

// unusableFilter describes the filter of a table if it is unusable and was not reported
// yet. Level is not known.
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
	o.Logger.Warn("a table's filter is of no use", "table", info.FileNum, "level", info.Level, "policy", info.Policy, "instead", info.Instead, "err", info.Err)
}

// tell calls a function of the listener, if it is set.
func tell[T any](d *DB, f func(T), what T) { tracking.Call(&d.listenerCalls, f, what) }
