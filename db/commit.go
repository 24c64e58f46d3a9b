package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Put writes value under key. Nil WriteOptions mean Sync. A key above MaxKeySize or a value
// above MaxValueSize is ErrTooLarge, and nothing is written. After another error the write
// may or may not be present when the database is opened again. Put keeps neither slice.
func (d *DB) Put(key, value []byte, wo *WriteOptions) error {
	return d.write(base.KindSet, key, value, wo)
}

// Delete deletes key. Deleting a key that does not exist is no error. Otherwise it is like Put.
func (d *DB) Delete(key []byte, wo *WriteOptions) error {
	return d.write(base.KindDelete, key, nil, wo)
}

// write commits one entry.
func (d *DB) write(kind base.Kind, key, value []byte, wo *WriteOptions) error {
	switch {
	case d == nil || d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	case d.listenerCalls.InThisGoroutine():
		return ErrInListener
	}
	if d.scans.Expiry != nil {
		var err error
		if kind, value, err = d.seal(kind, key, value); err != nil {
			return err
		}
	}
	if o := d.listenerCalls.observer.Observation(); o != nil {
		o.NoteKey(key)
	}
	return d.commit.Put(kind, key, value, wo.durability())
}

// durability returns where a write must be before it is acknowledged.
func (wo *WriteOptions) durability() commit.Durability {
	switch {
	case wo == nil:
		return commit.OnDisk
	case wo.Buffered:
		return commit.InBuffer
	case wo.NoSync:
		return commit.WithSystem
	}
	return commit.OnDisk
}

// Apply writes the batch atomically: after a crash either all of its writes are present or none, and readers see all of
// them or none. Otherwise it is like Put. The batch must not be used until Apply returns, and does not change. A batch
// with a key, a value or a size above the limits is ErrTooLarge. A nil batch, a copy of a Batch, and a batch that
// several goroutines use at the same time are refused with an error, and nothing is written; see Batch. An empty batch
// writes nothing; with Sync it syncs the log, as SyncLog does.
func (d *DB) Apply(b *Batch, wo *WriteOptions) error {
	return d.applyUnder(context.Background(), b.own(), wo)
}

// applyUnder is Apply with a context for the ranges of a batch.
func (d *DB) applyUnder(ctx context.Context, b *batch.Batch, wo *WriteOptions) (err error) {
	switch {
	case d == nil || d.closed.Load():
		return ErrClosed
	case d.opts.ReadOnly:
		return ErrReadOnly
	case d.listenerCalls.InThisGoroutine():
		return ErrInListener
	case b == nil:
		return errors.New("sievedb: Apply: the batch is nil; pass a pointer to a Batch")
	case !b.Begin():
		return b.Misuse()
	}
	defer func() {
		if !b.End() && err == nil {
			err = errors.New("sievedb: Apply: the batch was written, but another goroutine used it meanwhile, and its writes to it were refused; " +
				"give each goroutine its own Batch")
		}
	}()
	if b.HasRanges() {
		if err := b.Refused(); err != nil {
			return err
		}
		return d.applyRanges(ctx, b, wo)
	}
	return d.apply(b, wo, nil)
}

// SyncLog makes all acknowledged writes durable, whatever their WriteOptions were, as the next write with Sync would:
// after it returns nil, all of them survive a power cut. It costs one fsync of the log, which concurrent writes share,
// or none if nothing was written since the last one.
//
// After an error, writes that were acknowledged with NoSync or Buffered may be lost in a power cut. A failed sync ends
// the writes of the store, like the failed sync of a write; see ErrReadOnly. On a full disk the error is ErrNoSpace,
// and the next call tries again. A closed store returns ErrClosed, a read-only one ErrReadOnly, and a call from a
// function of the EventListener ErrInListener.
//
// It may be called from any goroutine. It waits for writes that are already queued, which may
// wait for a flush. Flush makes writes durable too, but writes a table.
func (d *DB) SyncLog() error { return d.Apply(new(Batch), Sync) }

// apply is Apply for a batch that the caller has exclusively. It is not written if check, which
// may be nil, returns an error.
func (d *DB) apply(b *batch.Batch, wo *WriteOptions, check txn.Check) error {
	if b.NeedsSeal(d.scans.Expiry) && b.Refused() == nil {
		return d.sealBatch(b, func(b *batch.Batch) error { return d.apply(b, wo, check) })
	}
	if o := d.listenerCalls.observer.Observation(); o != nil {
		o.NoteBatch(b)
	}
	return d.commit.Apply(b, wo.durability(), check)
}

// newCommitter returns the store's write path.
func (o *opening) newCommitter() *commit.Committer {
	calls, cmp := &o.listenerCalls, o.opts.Comparer
	return commit.New(commit.Options{
		Cmp: cmp, Dir: o.files, Memory: o.share.Memory(), Limits: o.opts.commitLimits(),
		Current: &o.finder.Current, Recent: &o.txns.recent, Latency: &o.counters.latency,
		Events: commit.Events{
			Failed:    func(cause error) { calls.reportEnd(cmp, cause) },
			LogFailed: func(err error) { notify(calls, calls.listener.BackgroundError, err) },
			Stalled: func(reason string, stopped bool, took time.Duration) {
				notify(calls, calls.listener.WriteStall, WriteStallInfo{Reason: reason, Stopped: stopped, Duration: took})
			},
		},
	})
}

// commitLimits returns the limits of the write path. o has all defaults filled in.
func (o *Options) commitLimits() commit.Limits {
	return commit.Limits{
		MemtableSize: o.Memtables.Size, MaxMemtables: o.Memtables.MaxWaiting,
		L0Slowdown: o.Compaction.L0Slowdown, L0Stop: o.Compaction.L0Stop,
	}
}
