package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/compact"
)

// Compact merges all tables that may contain keys from start to limit, limit excluded; nil means no bound. The space of
// deleted and shadowed entries is freed, unless a snapshot needs them, and every table is written with the present
// options. A table is merged as a whole, so entries outside the range are rewritten too. Entries that are written
// meanwhile may be left out. Compact returns when it is done, or when ctx is; what was merged until then stays merged.
//
// If start and limit are the same key, the range is empty: Compact does nothing and returns nil. A start after limit is
// refused with an error, because nothing else would reveal the mistake.
func (d *DB) Compact(ctx context.Context, start, limit []byte) error {
	if err := d.guardUnder(ctx, "Compact", toWrite|toWait); err != nil {
		return err
	}
	if start != nil && limit != nil {
		switch c := d.opts.Comparer.Compare(start, limit); {
		case c > 0:
			return errors.New("sievedb: Compact: start is after limit; pass the key that sorts first as start")
		case c == 0:
			return nil
		}
	}
	if err := d.flusher.FlushInPause(); err != nil {
		return err
	}
	return d.orReadOnly(d.compactor.Compact(ctx, start, limit))
}

// PauseCompactions waits for running automatic compactions to end, and prevents new ones until resume
// is called: for a time in which the disk should be quiet, or the set of tables should not change.
// Several pauses may be in effect at a time; compactions continue when all of them have ended.
// Metrics.Compactions.Pauses counts them, so that a forgotten one can be found. resume may be called more
// than once and from any goroutine, and after Close, which a pause does not hinder.
//
// Writes and flushes continue, so level 0 grows: from CompactionOptions.L0Slowdown on writes are slowed, and at L0Stop
// they wait for the end of the pause, with a reason of its own (Metrics.Stalls.CurrentReason). SetOptions can raise
// these limits for a long pause. Compact, UpgradeFilters, loads and a DeleteRange that removes tables work as before:
// they run because a program called them, and flush memtables also if level 0 is full. The same holds on a disk that is
// too full for compactions.
//
// If ctx is done before the running compactions have ended, there is no pause, and the error is that of ctx. Under a
// low CompactionOptions.MaxBytesPerSecond they may need minutes. A call from a function of the EventListener returns
// ErrInListener, a read-only store ErrReadOnly and a closed one ErrClosed.
func (d *DB) PauseCompactions(ctx context.Context) (resume func(), err error) {
	if err := d.guardUnder(ctx, "PauseCompactions", toWrite|toWait); err != nil {
		return nil, err
	}
	end, err := d.compactor.Pause(ctx)
	if err != nil {
		return nil, d.orReadOnly(err)
	}
	d.commit.Wake() // they report the other reason
	return func() { end(); d.commit.Wake() }, nil
}

// newCompactor returns the scheduler of the store's compactions.
func (o *opening) newCompactor() *compact.Scheduler {
	calls, part, writers, committer := &o.listenerCalls, o.share, o.writers, o.commit
	return compact.New(compact.Options{
		Dir: o.files, Cmp: o.opts.Comparer, Cache: o.tables, Obsolete: o.obsolete, Plan: writers.plan,
		NewFileNum: o.set.NewFileNum,
		NewWriter:  writers.writer,
		Tuning:     writers.tuning(&o.opts), ReadPolicies: o.opts.readPolicies(), ReadOnly: o.opts.ReadOnly,
		Slots: part.Slots(), MaxValue: MaxValueSize, FilterCalls: calls.During, Expiry: writers.expiry,
		Begin: func(i CompactionInfo) { notify(calls, calls.listener.CompactionBegin, i) },
		End: func(i CompactionInfo) {
			part.Trim(writers.spares)
			notify(calls, calls.listener.CompactionEnd, i)
		},
		Guard: committer.Guard,
		Fail:  committer.Fail,
		Ended: func(err error) { // writers may wait for it
			committer.Wake()
			o.bulk.Wake()
			calls.reportBackground(err)
		},
		Logger: o.opts.Logger,
	}, compactionHost{snapshots: &o.snapshots, current: &o.finder.Current, expiry: writers.expiry, apply: committer.ApplyEdit})
}

// compactionHost is what compactions see of the store.
type compactionHost struct {
	snapshots *lookup.Snapshots
	current   *lookup.Current
	expiry    *expiry.Policy
	apply     func(edit *manifest.Edit, written []*version.FileMeta, also func(*lookup.State)) error
}

func (h compactionHost) RefVersion() *version.Version { return h.current.Ref().Version }
func (h compactionHost) OldestSnapshot() uint64       { return h.snapshots.Oldest(&h.current.VisibleSeq) }
func (h compactionHost) Snapshots() []uint64          { return h.snapshots.All(&h.current.VisibleSeq) }
func (h compactionHost) OldestTime() uint64           { return h.snapshots.OldestTime(h.expiry) }

func (h compactionHost) BeginFilter(pin bool) (from uint64, end func()) {
	return h.snapshots.BeginFilter(pin)
}

func (h compactionHost) Apply(edit *manifest.Edit, written []*version.FileMeta) error {
	return h.apply(edit, written, nil)
}
