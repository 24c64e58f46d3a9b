package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/feed"
	"github.com/sievedb/sievedb/internal/write/load"
	"github.com/sievedb/sievedb/internal/write/rangedel"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// DeleteRange deletes all keys from start to limit, limit excluded; nil means no bound. It is atomic:
// readers see all of the range or nothing, also after a crash. Snapshots and iterators from before
// keep their view.
//
// Tables with no other keys are removed as a whole, and their space is free at once. If a snapshot
// needs them, they are removed when it is closed. The other keys get tombstones, which are written
// as tables. So the time does not depend on the size of the range, unless a snapshot is open:
// then each key is read. Other writers wait for a short time at the end, in which the store flushes
// the few writes of the meantime and records the change in the MANIFEST. If no table lies in the
// range as a whole, and it has few keys, the tombstones are written like a batch instead. Calls that do
// not write like a batch run one after another, and take turns with Loader.Commit.
//
// It is durable when it returns, unless wo says otherwise and it was written like a batch.
// On a full disk it uses the reserve, which a large database has by default (Options.Limits.DiskReserve), since
// it needs space before it frees some. A start after limit is refused with an error; an empty range does nothing. ctx ends the search for
// keys and the wait for other deletions and writers; then nothing is deleted, and DeleteRange
// returns the error of ctx.
func (d *DB) DeleteRange(ctx context.Context, start, limit []byte, wo *WriteOptions) error {
	if ctx == nil {
		return errNilContext("DeleteRange")
	}
	var b Batch
	b.DeleteRange(start, limit)
	return d.applyUnder(ctx, &b.content, wo)
}

// applyRanges is apply for a batch with ranges.
func (d *DB) applyRanges(ctx context.Context, b *batch.Batch, wo *WriteOptions) error {
	if b.NeedsSeal(d.expiry) {
		return d.sealBatch(b, func(b *batch.Batch) error { return d.applyRanges(ctx, b, wo) })
	}
	spans, own, err := rangedel.Parse(d.cmp, b)
	if err != nil {
		return err
	}
	return d.withReserve(ctx, func() error { return d.deleteSpans(ctx, wo, spans, own) })
}

// deleteSpans deletes ranges and makes other writes.
func (d *DB) deleteSpans(ctx context.Context, wo *WriteOptions, spans rangedel.Spans, own []rangedel.Entry) error {
	done, err := rangedel.DeletePoints(ctx, &pointHost{d, wo}, &d.recent, d.state().Version, spans, own)
	if done {
		return err
	}
	info, err := d.deleter.Delete(ctx, spans, own)
	if err != nil {
		return d.orReadOnly(base.NoSpace(err))
	}
	d.opts.Logger.Info("deleted a range", "tables", info.TablesDropped, "bytes", info.BytesDropped,
		"tombstones", info.Tombstones, "kept", info.TablesCovered)
	return nil
}

// pointHost is the store as a deletion of ranges that is written like a batch sees it.
type pointHost struct {
	d  *DB
	wo *WriteOptions
}

func (h *pointHost) LastVisible() uint64 { return h.d.snapshots.Visible(&h.d.finder.Current) }

func (h *pointHost) Apply(b *batch.Batch, check txn.Check) error { return h.d.apply(b, h.wo, check) }

func (h *pointHost) Keys(a rangedel.Span, visit func(key []byte) bool) error {
	it, err := h.d.newIterator(&IterOptions{LowerBound: a.Start, UpperBound: a.Limit}, nil, nil)
	if err != nil {
		return err
	}
	it.cursor.ShowExpired() // values without an envelope can be deleted
	for ok := it.First(); ok && visit(it.Key()); ok = it.Next() {
	}
	return it.Close()
}

// newDeleter returns what deletes ranges by tables.
func (d *DB) newDeleter() *rangedel.Deleter {
	return rangedel.New(rangedel.Options{Cmp: d.cmp, Cache: d.tables, Compactor: d.compactor}, &deleteHost{(*loadHost)(d)})
}

// deleteHost is the store as a deletion of ranges sees it.
type deleteHost struct{ *loadHost }

func (h *deleteHost) db() *DB                               { return (*DB)(h.loadHost) }
func (h *deleteHost) LastVisible() uint64                   { return h.snapshots.Visible(&h.finder.Current) }
func (h *deleteHost) RefVersion() *manifest.Version         { return h.finder.Ref().Version }
func (h *deleteHost) Pin() (unpin func())                   { return h.snapshots.Pin() }
func (h *deleteHost) OldestUnpinned() (seq uint64, ok bool) { return h.snapshots.OldestUnpinned() }
func (h *deleteHost) Closing() <-chan struct{}              { return h.stop.begun }

func (h *deleteHost) NewWriter(seq, size uint64) rangedel.Writer {
	o := h.db().loadOptions(seq)
	o.TableSize, o.Ended = max(o.TableSize, size), func() {}
	return load.New(o, h.loadHost)
}

func (h *deleteHost) Remove(f *manifest.FileMeta) { h.db().removeTables([]*manifest.FileMeta{f}) }

func (h *deleteHost) WrittenSince(f *manifest.FileMeta, seq uint64) bool {
	return h.db().writtenSince(f, seq)
}

func (h *deleteHost) Drop(edit *manifest.Edit) error {
	err := h.db().applyEdit(edit, nil, nil)
	if err != nil {
		h.opts.Logger.Warn("tables of a deleted range stay until they are compacted", "err", err)
	}
	return err
}

func (h *deleteHost) Background(f func()) {
	h.background.Add(1)
	go func() {
		defer h.background.Done()
		_ = h.db().guard("the removal of a deleted range", func() error { f(); return nil })
	}()
}

func (h *deleteHost) Lead(ctx context.Context, f func() error) error {
	h.crowded.Store(true)
	defer h.crowded.Store(false)
	h.db().wakeWriters()
	return h.commit.run(h.db(), &commitRequest{ctx: ctx, alone: func(*DB) error { return f() }})
}

func (h *deleteHost) Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64, spans rangedel.Spans, own []rangedel.Entry, gone []txn.Range) error {
	return h.installAtOnce(feed.DeleteRange, feed.DeletionEvent(spans, own), edit, written, seq, txn.Change{Gone: gone})
}

// installAtOnce makes the edit visible at one moment. A lookup with the new version, which lacks tables,
// never sees an old number, which would hide the tombstones. c is what the edit changes without a trace.
// It is noted when the edit is certain, and before it is visible; see Transaction.Commit.
func (h *deleteHost) installAtOnce(kind feed.Kind, e feed.Event, edit *manifest.Edit, written []*manifest.FileMeta, seq uint64, c txn.Change) error {
	return h.install(kind, e, edit, written, seq, func(s *lookup.State) {
		h.untraced.Note(seq, c, h.snapshots.Oldest(&h.finder.VisibleSeq))
		h.snapshots.Show(&h.finder.Current, s, seq)
	})
}
