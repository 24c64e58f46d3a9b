package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/commit"
)

// newCoordinator returns what makes loads, ingests and deletions of ranges.
func (d *DB) newCoordinator() *bulk.Coordinator {
	return bulk.New(bulk.Options{
		Cmp: d.opts.Comparer, Dir: d.files, Set: d.set, Cache: d.tables, Compactor: d.compactor, Current: &d.finder.Current,
		Snapshots: &d.snapshots, Recent: &d.txns.recent, Untraced: &d.txns.untraced, Expiry: d.scans.Expiry,
		Plan: d.writers.plan, Policy: d.opts.Filters.Policy, Known: d.opts.checkPolicies(), Closing: d.commit.Ending(),
		NewTables:    func() tables.WriterOptions { return d.tableWriterOptions(0) },
		TableSize:    d.loadTableSize,
		Flush:        d.flusher.FlushForChange,
		Lead:         d.lead,
		IgnoreLevel0: d.commit.IgnoreLevel0,
		Apply:        d.commit.ApplyEdit,
		Changes:      func() *changes.Archive { return d.feeds.kept },
		WrittenSince: d.writtenSince,
		Keys:         d.visitKeys,
		InListener:   d.listenerCalls.InThisGoroutine,
		Background: func(f func()) {
			base.GoIn(&d.background, func() {
				_ = d.commit.Guard("the removal of a deleted range", func() error { f(); return nil })
			})
		},
	})
}

// lead calls f as the leader of the writers.
func (d *DB) lead(ctx context.Context, f func(bulk.Leader) error) error {
	return d.commit.Lead(ctx, func(l *commit.Leader) error { return f(l) })
}
