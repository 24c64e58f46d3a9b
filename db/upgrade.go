package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/compact"
)

// UpgradeOptions say how UpgradeFilters goes about it. The zero value is the default.
type UpgradeOptions struct {
	// DryRun only tells what would be done. It reads of each table the filters and what
	// says how many keys it has, no more.
	DryRun bool
	// BytesPerSecond bounds what is read from tables, in the mean, so that lookups beside
	// it keep the disk to themselves; as much is written. 0: no bound.
	BytesPerSecond int64
	// Progress, if not nil, is called after each version of the store in which tables have new
	// filters, with the report up to there, in the goroutine of the call.
	Progress func(UpgradeReport)
}

// UpgradeReport is what UpgradeFilters did or, in a dry run, would do.
type UpgradeReport struct {
	Tables   int // that the store had
	Upgraded int // that were given new filters
	Current  int // that had them already
	Damaged  int // that could not be read through, and stay as they are
	// Bytes is what the upgraded tables took. As much is read, and about as much written.
	Bytes uint64
	// FilterBytesBefore and FilterBytesAfter are what the filters of the upgraded tables
	// took and take, all kinds together.
	FilterBytesBefore, FilterBytesAfter uint64
	// WastedReadsBefore and WastedReadsAfter are the reads from disk that a lookup of an
	// absent key was and is expected to make in vain, by the filters' mathematics,
	// with nothing cached and damaged tables left out: for each level the mean rate of false positives of its tables; in
	// level 0, where a lookup may ask each, their sum. A table without a filter counts for one.
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, nil for Options.Filters.Policy, without compacting
// anything: a table's data blocks are copied as they are stored, its keys are read in the same
// pass, and a new end with filters and index is written behind them. The new table takes the
// old one's place in one edit of the MANIFEST, on the same level; only those of level 0 change
// places together. As many tables are copied at once as there are processors, two at least, and
// together they count as one merge (Options.Compaction.MaxConcurrent). Lookups, writes and compactions go on.
//
// Tables that have these filters already are left alone, so that a call that was
// interrupted, by its context or a crash, is taken up by the next one. What was upgraded until then stays so.
// Where policy is nil and Options has a budget for filters, or the default filter, each table
// gets the bits of its level.
//
// Each table gets the filters of Options.Filters.RangePolicies too, unless it has one of each, with its bits;
// the report leaves their bytes out.
//
// New tables are always written with Options.Filters.Policy: open the store with the policy that
// is to stay. The policy must be one that the store reads: Options.Filters.Policy or one of ours.
//
// It needs free space for 64 MiB of tables, two tables that are larger, or those of level 0. Tables that
// are damaged are passed over and counted, and the error, which comes at the end, wraps
// ErrCorruption then. o may be nil.
func (d *DB) UpgradeFilters(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (UpgradeReport, error) {
	if d == nil || d.closed.Load() {
		return UpgradeReport{}, ErrClosed
	}
	if ctx == nil {
		return UpgradeReport{}, errNilContext("UpgradeFilters")
	}
	if (o == nil || !o.DryRun) && d.listenerCalls.InThisGoroutine() {
		return UpgradeReport{}, ErrInListener
	}
	var options compact.UpgradeOptions
	if o != nil {
		options.DryRun, options.BytesPerSecond = o.DryRun, o.BytesPerSecond
		if o.Progress != nil {
			options.Progress = func(r compact.UpgradeReport) { o.Progress(UpgradeReport(r)) }
		}
	}
	report, err := d.compactor.UpgradeFilters(ctx, policy, options)
	return UpgradeReport(report), err
}
