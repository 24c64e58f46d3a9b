package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/work/feed"
	"github.com/sievedb/sievedb/internal/write/bulk"
)

// newCoordinator returns what makes loads, ingests and deletions of ranges.
func (d *DB) newCoordinator() *bulk.Coordinator {
	return bulk.New(bulk.Options{
		Cmp: d.cmp, Dir: d.files, Set: d.set, Cache: d.tables, Compactor: d.compactor, Current: &d.finder.Current,
		Snapshots: &d.snapshots, Recent: &d.recent, Untraced: &d.untraced, Expiry: d.expiry,
		Plan: d.plan, Policy: d.opts.Filters.Policy, Known: d.opts.checkPolicies(), Closing: d.stop.begun,
		NewTables:    func() tables.WriterOptions { return d.tableWriterOptions(0) },
		TableSize:    func() uint64 { return uint64(d.options().Tables.Size) },
		Flush:        func() error { return d.flushInPause(d.Flush) },
		Lead:         d.lead,
		IgnoreLevel0: d.ignoreLevel0,
		Apply:        d.applyEdit,
		Changes:      func() *feed.Archive { return d.changes },
		WrittenSince: d.writtenSince,
		Keys:         d.visitKeys,
		InListener:   d.listenerCalls.InThisGoroutine,
		Background: func(f func()) {
			d.background.Add(1)
			go func() {
				defer d.background.Done()
				_ = d.guard("the removal of a deleted range", func() error { f(); return nil })
			}()
		},
	})
}

// lead calls f as the leader of the writers.
func (d *DB) lead(ctx context.Context, f func(bulk.Leader) error) error {
	return d.commit.run(d, &commitRequest{ctx: ctx, alone: func(*DB) error { return f(leader{d}) }})
}

// ignoreLevel0 lets no writer wait for room in level 0 until end is called.
func (d *DB) ignoreLevel0() (end func()) {
	d.crowded.Store(true)
	d.wakeWriters()
	return func() { d.crowded.Store(false) }
}

// leader is the leadership of the commit queue for bulk changes.
type leader struct{ d *DB }

func (l leader) LastSeq() uint64 { return l.d.log.lastSeq }

func (l leader) Flush() error {
	if err := l.d.flushInPause(l.d.flushActive); err != nil {
		return err
	}
	return l.d.waitForMemtables()
}

func (l leader) Advance(seq uint64, certain bool) {
	d := l.d
	d.log.lastSeq = seq
	d.recent.Forget(seq)
	d.finder.VisibleSeq.Store(seq)
	if !certain {
		return
	}
	d.log.logged = seq
	d.synced.Store(seq)
	if d.changes != nil {
		d.wakeReaders()
	}
}
