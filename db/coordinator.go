package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/internal/write/flush"
)

// newCoordinator returns what makes loads, ingests and deletions of ranges.
func (o *opening) newCoordinator() *bulk.Coordinator {
	writers, kept, committer, background := o.writers, o.feeds.kept, o.commit, &o.background
	readers := keyReader{finder: &o.finder, source: o.scans}
	return bulk.New(bulk.Options{
		Cmp: o.opts.Comparer, Dir: o.files, Set: o.set, Cache: o.tables, Compactor: o.compactor, Current: &o.finder.Current,
		Snapshots: &o.snapshots, Recent: &o.txns.recent, Untraced: &o.txns.untraced, Expiry: writers.expiry,
		Plan: writers.plan, Policy: o.opts.Filters.Policy, Known: o.opts.checkPolicies(), Closing: committer.Ending(),
		NewTables: func() tables.WriterOptions { return writers.options(0) },
		TableSize: writers.loadTableSize,
		Flush:     o.flusher.FlushForChange,
		Lead: func(ctx context.Context, f func(bulk.Leader) error) error {
			return committer.Lead(ctx, func(l *commit.Leader) error { return f(l) })
		},
		IgnoreLevel0: committer.IgnoreLevel0,
		Apply:        committer.ApplyEdit,
		Changes:      func() *changes.Archive { return kept },
		WrittenSince: o.txns.writtenSince,
		Keys:         readers.visit,
		InListener:   o.listenerCalls.InThisGoroutine,
		Background: func(f func()) {
			base.GoIn(background, func() {
				_ = committer.Guard("the removal of a deleted range", func() error { f(); return nil })
			})
		},
	})
}

// newFlusher returns what writes memtables to tables.
func (o *opening) newFlusher() *flush.Flusher {
	calls, part, spares, feeds, files, committer := &o.listenerCalls, o.share, o.writers.spares, o.feeds, o.files, o.commit
	current, dir, closed, background := &o.finder.Current, o.dir, &o.closed, &o.background
	return flush.New(flush.Options{
		Cmp: o.opts.Comparer, Dir: files, Set: o.set, Obsolete: o.obsolete, Current: current, Commit: committer,
		Compactor: o.compactor, Write: o.writers.writeMemtable,
		RetireLog: func(num uint64) { feeds.retireLog(&files, num) },
		Ended:     func(i FlushInfo) { notify(calls, calls.listener.FlushEnd, i) },
		Failed:    calls.reportBackground,
		Flushed: func(capacity int) {
			if bytes := current.State.Load().Version.Bytes(); dir.Reserve.Due(bytes) { // a flush does not wait for so large a file
				base.GoIn(background, func() {
					_ = committer.Guard("making the reserve", func() error { dir.KeepReserve(bytes, closed.Load, files.Logger); return nil })
				})
			}
			part.Trim(spares)
			part.Memory().Flushed(capacity)
		},
	})
}
