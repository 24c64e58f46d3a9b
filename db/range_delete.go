package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/read/scan"
	"github.com/sievedb/sievedb/internal/write/bulk"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// DeleteRange deletes all keys from start to limit, limit excluded; nil means no bound. It is atomic:
// readers see all of the range or nothing, also after a crash. Snapshots and iterators from before
// keep their view.
//
// Tables with no other keys are removed as a whole, and their space is free at once. If a snapshot
// needs them, they are removed when it is closed. The other keys get tombstones, which are written
// as tables. So the time does not depend on the size of the range, unless a snapshot is open:
// then each key is read, until the snapshot is closed. DeleteRange does not wait for that. Other writers wait for a short time at the end, in which the store flushes
// the few writes of the meantime and records the change in the MANIFEST. If no table lies in the
// range as a whole, and it has few keys, the tombstones are written like a batch instead. Calls that do
// not write like a batch run one after another, and take turns with Loader.Commit.
//
// It is durable when it returns, unless wo says otherwise and it was written like a batch. On a full disk it uses the
// reserve, which a large database has by default (Options.Limits.DiskReserve), since it needs space before it frees
// some. A start after limit is refused with an error; an empty range does nothing. ctx ends the search for keys and the
// wait for other deletions and writers; then nothing is deleted, and DeleteRange returns the error of ctx.
func (d *DB) DeleteRange(ctx context.Context, start, limit []byte, wo *WriteOptions) error {
	if err := d.guardUnder(ctx, "DeleteRange", toWrite|toWait); err != nil {
		return err
	}
	var b Batch
	b.DeleteRange(start, limit)
	return d.applyUnder(ctx, &b.content, wo)
}

// applyRanges is apply for a batch with ranges.
func (d *DB) applyRanges(ctx context.Context, b *batch.Batch, wo *WriteOptions) error {
	if b.NeedsSeal(d.scans.Expiry) {
		return d.sealBatch(b, func(b *batch.Batch) error { return d.applyRanges(ctx, b, wo) })
	}
	spans, own, err := bulk.Parse(d.opts.Comparer, b)
	if err != nil {
		return err
	}
	if o := d.listenerCalls.observer.Observation(); o != nil {
		for _, s := range spans.All() {
			o.Note(s.Start, s.Limit, false)
		}
	}
	return d.withReserve(ctx, func() error { return d.deleteSpans(ctx, wo, spans, own) })
}

// deleteSpans deletes ranges and makes other writes.
func (d *DB) deleteSpans(ctx context.Context, wo *WriteOptions, spans bulk.Spans, own []bulk.Entry) error {
	apply := func(b *batch.Batch, check txn.Check) error { return d.apply(b, wo, check) }
	done, err := d.bulk.DeletePoints(ctx, spans, own, apply)
	if done {
		return err
	}
	info, err := d.bulk.DeleteTables(ctx, spans, own)
	if err != nil {
		return d.orReadOnly(base.NoSpace(err))
	}
	d.opts.Logger.Info("deleted a range", "tables", info.TablesDropped, "bytes", info.BytesDropped,
		"tombstones", info.Tombstones, "kept", info.TablesCovered)
	return nil
}

// keyReader reads keys for deletions of ranges.
type keyReader struct {
	finder *lookup.Finder
	source scan.Source
}

// visit calls f with each visible key of a range, values without an envelope included, until it returns false.
func (r *keyReader) visit(a bulk.Span, f func(key []byte) bool) error {
	s, seq := r.finder.RefAt(nil)
	var c scan.Cursor
	c.Start(&r.source, s.Version, seq, r.finder.Time(nil))
	for _, m := range s.Memtables() {
		c.AddMemtable(m.Memtable)
	}
	c.Open(&scan.Options{LowerBound: a.Start, UpperBound: a.Limit})
	c.ShowExpired() // values without an envelope can be deleted
	for ok := c.First(); ok && f(c.Key()); ok = c.Next() {
	}
	c.Close()
	r.source.Tables.Settle() // those that it held may be the ones to close
	return c.Err()
}
