package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/compact"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
)

// Compact merges all tables that may contain keys from start to limit, limit excluded; nil
// means no bound. The space of deleted and shadowed entries is freed, unless a snapshot
// needs them, and every table is written with the present options. A table is merged as a
// whole, so entries outside the range are rewritten too. Entries that are written meanwhile
// may be left out. Compact returns when it is done, or when ctx is; what was merged until
// then stays merged.
//
// If start and limit are the same key, the range is empty: Compact does nothing and returns
// nil. A start after limit is refused with an error, because nothing else would reveal the
// mistake.
func (d *DB) Compact(ctx context.Context, start, limit []byte) error {
	if d == nil || d.closed.Load() {
		return ErrClosed
	}
	if ctx == nil {
		return errNilContext("Compact")
	}
	if start != nil && limit != nil {
		switch c := d.cmp.Compare(start, limit); {
		case c > 0:
			return errors.New("sievedb: Compact: start is after limit; pass the key that sorts first as start")
		case c == 0:
			return nil
		}
	}
	if d.listenerCalls.InThisGoroutine() {
		return ErrInListener
	}
	if d.fullAndPaused() { // the flush would wait for the end of the pause
		if err := d.compactor.Compact(ctx, start, limit); err != nil {
			return err
		}
		if d.fullAndPaused() {
			return errors.New("sievedb: Compact: level 0 is full outside of the range, and compactions are paused, " +
				"so the memtable cannot be flushed; compact everything, or resume compactions first")
		}
	}
	if err := d.Flush(); err != nil {
		return err
	}
	return d.compactor.Compact(ctx, start, limit)
}

// fullAndPaused reports whether writers wait, or would wait, for the end of a pause.
func (d *DB) fullAndPaused() bool {
	return len(d.state().Version.Levels[0].Files) >= d.options().Compaction.L0Stop && d.compactor.Paused()
}

// PauseCompactions waits for running automatic compactions to end, and prevents new ones until resume
// is called: for a time in which the disk should be quiet, or the set of tables should not change.
// Several pauses may be in effect at a time; compactions continue when all of them have ended.
// CompactionMetrics.Pauses counts them, so that a forgotten one can be found. resume may be called more
// than once and from any goroutine, and after Close, which a pause does not hinder.
//
// Writes and flushes continue, so level 0 grows: from CompactionOptions.L0Slowdown on writes are
// slowed, and at L0Stop they wait for the end of the pause, with a reason of its own
// (StallMetrics.CurrentReason). SetOptions can raise these limits for a long pause. Compact,
// UpgradeFilters, loads and DeleteRange work as before: they run because a program called them. If level
// 0 is full, Compact merges the tables of its range before it flushes the memtable, and returns an
// error if that makes no room.
//
// If ctx is done before the running compactions have ended, there is no pause, and the error is that of
// ctx. A call from a function of the EventListener returns ErrInListener, a read-only store
// ErrReadOnly and a closed one ErrClosed.
func (d *DB) PauseCompactions(ctx context.Context) (resume func(), err error) {
	switch {
	case d == nil || d.closed.Load():
		return nil, ErrClosed
	case ctx == nil:
		return nil, errNilContext("PauseCompactions")
	case d.opts.ReadOnly:
		return nil, ErrReadOnly
	case d.listenerCalls.InThisGoroutine():
		return nil, ErrInListener
	}
	if resume, err = d.compactor.Pause(ctx); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cond.Broadcast() // writers that wait already report the other reason
	}
	return resume, err
}

// newCompactor returns the scheduler of the store's compactions.
func (d *DB) newCompactor() *compact.Scheduler {
	o := &d.opts
	return compact.New(compact.Options{
		Dir: d.files, Cmp: d.cmp, Cache: d.tables, Obsolete: d.obsolete, Plan: d.plan,
		NewFileNum: d.set.NewFileNum,
		NewWriter:  d.newTableWriter,
		Tuning:     d.tuning(o), ReadPolicies: o.readPolicies(), ReadOnly: o.ReadOnly,
		MaxValue: MaxValueSize, FilterCalls: d.listenerCalls.During, Expiry: d.expiry,
		Begin:  func(i compact.Info) { notify(d, o.EventListener.CompactionBegin, CompactionInfo(i)) },
		End:    func(i compact.Info) { notify(d, o.EventListener.CompactionEnd, CompactionInfo(i)) },
		Guard:  d.guard,
		Fail:   d.endWrites,
		Ended:  d.compactionEnded,
		Logger: o.Logger,
	}, (*compactionHost)(d))
}

// compactionEnded receives the result of a compaction: writers may wait for it.
func (d *DB) compactionEnded(err error) {
	d.mu.Lock()
	d.cond.Broadcast()
	d.mu.Unlock()
	d.deleter.Wake()
	d.reportBackground(err)
}

// compactionHost is the store as its compactions see it.
type compactionHost DB

func (h *compactionHost) RefVersion() *manifest.Version { return h.finder.Ref().Version }
func (h *compactionHost) OldestSnapshot() uint64        { return h.snapshots.Oldest(&h.finder.VisibleSeq) }
func (h *compactionHost) Snapshots() []uint64           { return h.snapshots.All(&h.finder.VisibleSeq) }
func (h *compactionHost) OldestTime() uint64            { return h.snapshots.OldestTime(h.expiry) }

func (h *compactionHost) BeginFilter(pin bool) (from uint64, end func()) {
	return h.snapshots.BeginFilter(pin)
}

func (h *compactionHost) Apply(edit *manifest.Edit, written []*manifest.FileMeta) error {
	return (*DB)(h).applyEdit(edit, written, nil)
}
