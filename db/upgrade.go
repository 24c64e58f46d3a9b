package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/work/compact"
)

// UpgradeOptions configure UpgradeFilters. The zero value is the default.
type UpgradeOptions struct {
	// DryRun only reports what would be done. Of each table it reads the filters and the number of keys, no more.
	DryRun bool
	// BytesPerSecond bounds the average rate of reading from tables, so that concurrent
	// lookups have the disk; the same amount is written. 0: no bound.
	BytesPerSecond int64
	// Progress, if not nil, is called in the goroutine of the call after each edit that
	// installs tables with new filters, with the report so far.
	Progress func(UpgradeReport)
}

// UpgradeReport describes what UpgradeFilters did or, in a dry run, would do.
type UpgradeReport struct {
	Tables   int // of the store
	Upgraded int // got new filters
	Current  int // already had them
	Damaged  int // could not be read completely, and stay as they are
	// Bytes is the size of the upgraded tables. That much is read, and about as much written.
	Bytes uint64
	// FilterBytesBefore and FilterBytesAfter are the sizes of all filters of the upgraded tables.
	FilterBytesBefore, FilterBytesAfter uint64
	// WastedReadsBefore and WastedReadsAfter are the expected disk reads that a lookup of an
	// absent key wastes, by the filters' mathematics, with nothing cached and without damaged
	// tables: for each level the mean false-positive rate of its tables; for level 0, where a
	// lookup may consult every table, their sum. A table without a filter counts as one.
	WastedReadsBefore, WastedReadsAfter float64
	Duration                            time.Duration
}

// UpgradeFilters gives each table the filters of policy, nil for Options.Filters.Policy, without a compaction: a
// table's data blocks are copied as they are stored, its keys are read in the same pass, and a new end with filters and
// index is written after them. The new table replaces the old one in one edit of the MANIFEST, on the same level; only
// tables of level 0 are replaced together. As many tables are copied concurrently as there are processors, at least
// two, and together they count as one merge (Options.Compaction.MaxConcurrent). Lookups, writes and compactions
// continue.
//
// Tables that already have these filters are skipped, so after a call that was interrupted, by its context or a crash,
// the next one continues. If policy is nil and Options has a budget for filters, or the default filter, each table gets
// the bits of its level. Each table also gets the filters of Options.Filters.RangePolicies, unless it has one of each,
// with its bits; the report does not include their bytes.
//
// New tables are always written with Options.Filters.Policy: open the store with the policy that is to stay. The policy
// must be one that the store reads: Options.Filters.Policy or one of its own.
//
// It needs free space for 32 MiB of tables, for a table that is larger, or for those of level 0. Damaged tables are
// skipped and counted; then the error, which comes at the end, wraps ErrCorruption. o may be nil.
func (d *DB) UpgradeFilters(ctx context.Context, policy filter.Policy, o *UpgradeOptions) (UpgradeReport, error) {
	needs := toWrite | toWait
	if o != nil && o.DryRun {
		needs = 0
	}
	if err := d.guardUnder(ctx, "UpgradeFilters", needs); err != nil {
		return UpgradeReport{}, err
	}
	var options compact.UpgradeOptions
	if o != nil {
		options.DryRun, options.BytesPerSecond = o.DryRun, o.BytesPerSecond
		if o.Progress != nil {
			options.Progress = func(r compact.UpgradeReport) { o.Progress(UpgradeReport(r)) }
		}
	}
	if !options.DryRun {
		d.inForce.mu.Lock()
		d.writers.decideCompression()
		d.compactor.Tune(d.writers.tuning(d.inForce.full())) // it has the compression of the tables' indexes
		d.inForce.mu.Unlock()
	}
	report, err := d.compactor.UpgradeFilters(ctx, policy, options)
	return UpgradeReport(report), d.orReadOnly(err)
}
