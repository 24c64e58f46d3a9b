package db

import (
	"log/slog"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// EventListener has functions that the store calls when something happens. Nil fields are skipped. The goroutine that
// does the work calls them, which is one of the store's own or the caller's, possibly several at the same time, and
// never under a lock of the store. A slow function delays that work and everything that waits for it.
//
// The functions may read: every method of the DB, of iterators and of snapshots works, except those that may wait for
// such work. Put, Delete, Apply, DeleteRange, SyncLog, Flush, Compact, UpgradeFilters without DryRun, Loader.Commit,
// Ingest and Close do nothing and return ErrInListener, as do the other methods of a Loader while one of its calls is
// running. A function that needs one of these starts a goroutine that calls it, and does not wait for that goroutine. A
// panic in one of them ends the writes; see PanicError.
type EventListener struct {
	// FlushEnd is called after each flush attempt; Err is set if it failed.
	FlushEnd func(FlushInfo)
	// CompactionBegin and CompactionEnd are called before and after each compaction.
	CompactionBegin func(CompactionInfo)
	CompactionEnd   func(CompactionInfo)
	// LoadEnd is called after each Commit of a Loader with entries; Err is set if it failed.
	LoadEnd func(report.LoadInfo)
	// IngestEnd is called after each Ingest of one table or more; Err is set if it failed.
	IngestEnd func(report.Ingest)
	// WriteStall is called after a write was slowed or stopped.
	WriteStall func(WriteStallInfo)
	// TableRemoved is called after a table file was deleted.
	TableRemoved func(fileNum uint64)
	// FilterUnusable is called once for each table whose best filter excludes nothing, because it is damaged or of an
	// unknown kind. Lookups use another filter of the table or read the table, and their answers are right. It is
	// called by the goroutine that first needed the table, such as a Get's or an iterator's, which waits for it, or by
	// the one that opens tables ahead; other readers of the table do not wait.
	FilterUnusable func(report.FilterInfo)
	// TablesOpenedAhead is called once, when Options.Cache.OpenAhead has opened the tables,
	// unless Close came first. Without that option it is not called.
	TablesOpenedAhead func(report.OpenAheadInfo)
	// BackgroundError is called for each error that no call returns.
	BackgroundError func(error)
}

// reportFilter logs that the best filter of a table is unusable, if it is, and notifies the
// listener, once for each table.
func (c *listenerCalls) reportFilter(current *lookup.Current, f *version.FileMeta, status sstable.FilterStatus) {
	info, ok := unusableFilter(f, status)
	if !ok {
		return
	}
	if s := current.State.Load(); s != nil { // nil while Open reads tables
		s.Version.Files(func(level int, other *version.FileMeta) {
			if other == f {
				info.Level = level
			}
		})
	}
	logFilter(c.Logger, info)
	notify(c, c.listener.FilterUnusable, info)
}

// reportBackground logs the failure of background work, if err is one, and notifies the listener.
func (c *listenerCalls) reportBackground(err error) {
	if err != nil {
		c.Logger.Error("background work failed", "err", err)
		notify(c, c.listener.BackgroundError, err)
	}
}

// reportEnd reports a failure that has ended the writes. A panic of the logger or the listener is not passed on: callers
// that ended the writes because of another panic would never end.
func (c *listenerCalls) reportEnd(cmp *Comparer, cause error) {
	_ = base.Catch(cmp, "BackgroundError", func() error {
		var p *PanicError
		if errors.As(cause, &p) {
			c.Logger.Error("writes ended", "err", cause, "stack", string(p.Stack))
		} else {
			c.Logger.Error("writes ended", "err", cause)
		}
		notify(c, c.listener.BackgroundError, cause)
		return nil
	})
}

// unusableFilter describes the filter of a table if it is unusable and was not reported yet. Level is unknown.
func unusableFilter(f *version.FileMeta, status sstable.FilterStatus) (info report.FilterInfo, ok bool) {
	info = report.FilterInfo{FileNum: f.Num, Level: -1, Policy: status.Policy, Err: status.Err}
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
func logFilter(logger *slog.Logger, info report.FilterInfo) {
	logger.Warn("the filter of a table is unusable", "table", info.FileNum, "level", info.Level, "policy", info.Policy, "instead", info.Instead, "err", info.Err)
}
