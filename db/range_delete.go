package db

import (
	"context"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/load"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/rangedel"
)

// batchRange is a DeleteRange of a batch.
type batchRange struct {
	rangedel.Span
	after int // how many entries of the batch are before it
}

// DeleteRange deletes all keys from start to limit, limit excluded; nil means no bound. It is atomic:
// readers see all of the range or nothing, also after a crash. Snapshots and iterators from before
// keep their view.
//
// Tables with no other keys are removed as a whole, and their space is free at once. If a snapshot
// needs them, they are removed when it is closed. The other keys get tombstones, which are written
// as tables. So the time does not depend on the size of the range, unless a snapshot is open:
// then each key is read. Other writers wait for a short time at the end, in which the store flushes
// the few writes of the meantime and records the change in the MANIFEST. If no table lies in the
// range as a whole, and it has few keys, the tombstones are written like a batch instead.
//
// It is durable when it returns, unless wo says otherwise and it was written like a batch. A
// start after limit is refused with an error; an empty range does nothing. ctx ends the search for
// keys; then nothing is deleted, and DeleteRange returns the error of ctx.
func (d *DB) DeleteRange(ctx context.Context, start, limit []byte, wo *WriteOptions) error {
	if ctx == nil {
		return errNilContext("DeleteRange")
	}
	var b Batch
	b.DeleteRange(start, limit)
	return d.applyUnder(ctx, &b, wo)
}

// DeleteRange adds the deletion of all keys from start to limit, limit excluded; nil means no bound.
// It copies both. It deletes what the store has and what the batch has written so far; later writes
// of the batch stay. Apply then does what DB.DeleteRange says. If start is after limit, by the
// store's comparer, Apply returns an error.
func (b *Batch) DeleteRange(start, limit []byte) {
	if b == nil {
		panic("sievedb: a write to a nil *Batch; use &db.Batch{}")
	}
	if !b.begin() {
		return // Apply returns the error
	}
	defer b.end()
	for _, key := range [][]byte{start, limit} {
		if err := checkEntry(key, nil); err != nil {
			b.refuse(err)
			return
		}
	}
	b.ranges = append(b.ranges, batchRange{rangedel.Span{Start: cloneBound(start), Limit: cloneBound(limit)}, int(b.entries)})
}

// cloneBound copies a bound, which may be nil.
func cloneBound(key []byte) []byte {
	if key == nil {
		return nil
	}
	return append([]byte{}, key...)
}

// applyRanges is apply for a batch with ranges.
func (d *DB) applyRanges(ctx context.Context, b *Batch, wo *WriteOptions) error {
	if (d.expiry != nil || b.ttls != nil) && !b.sealed {
		return d.sealBatch(b, func(b *Batch) error { return d.applyRanges(ctx, b, wo) })
	}
	var list []rangedel.Span
	for _, r := range b.ranges {
		if r.Start != nil && r.Limit != nil && d.cmp.Compare(r.Start, r.Limit) > 0 {
			return errors.New("sievedb: DeleteRange: start is after limit; pass the key that sorts first as start")
		}
		list = append(list, r.Span)
	}
	own := d.foldBatch(b)
	spans := rangedel.NewSpans(d.cmp, list)
	if !spans.AnyTable(d.state().Version) {
		if done, err := d.deleteByBatch(ctx, spans, own, wo); done {
			return err
		}
	}
	info, err := d.deleter.Delete(ctx, spans, own)
	if err != nil {
		return base.NoSpace(err)
	}
	d.opts.Logger.Info("deleted a range", "tables", info.TablesDropped, "bytes", info.BytesDropped,
		"tombstones", info.Tombstones, "tables kept for now", info.TablesCovered)
	return nil
}

// foldBatch returns the last write of a batch for each key that it writes and does not delete by a
// range, in the order of the keys.
func (d *DB) foldBatch(b *Batch) (own []rangedel.Entry) {
	for _, e := range b.All() {
		switch e.Kind {
		case EntryDeleteRange:
			span := rangedel.NewSpans(d.cmp, []rangedel.Span{{Start: e.Key, Limit: e.Value}})
			own = slices.DeleteFunc(own, func(e rangedel.Entry) bool { return span.Contains(e.Key) })
		case EntryDelete:
			own = append(own, rangedel.Entry{Kind: base.KindDelete, Key: e.Key})
		default:
			own = append(own, rangedel.Entry{Kind: base.KindSet, Key: e.Key, Value: e.Value})
		}
	}
	slices.Reverse(own) // the last write of a key comes first and stays
	slices.SortStableFunc(own, func(a, b rangedel.Entry) int { return d.cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(own, func(a, b rangedel.Entry) bool { return d.cmp.Compare(a.Key, b.Key) == 0 })
}

// The most keys, and bytes of them, that a range may have to be deleted like a batch.
const (
	mostPointDeletes = 10_000
	mostPointBytes   = 1 << 20
)

// pointDeletes is the deletion of ranges as a batch of deletions and other writes.
type pointDeletes struct {
	d     *DB
	spans rangedel.Spans
	own   []rangedel.Entry
	keys  [][]byte // to delete
	batch Batch
}

// fill makes the batch.
func (p *pointDeletes) fill() error {
	p.batch.Reset()
	for _, key := range p.keys {
		p.batch.Delete(key)
	}
	for _, e := range p.own {
		p.batch.add(e.Kind, e.Key, e.Value)
	}
	p.batch.sealed = true
	return p.batch.refused
}

// addRecent adds the keys that were committed above horizon, and those of the requests that the
// leader commits before this one. Only the leader runs it.
func (p *pointDeletes) addRecent(before []*commitRequest, horizon uint64) error {
	recent := &p.d.recent
	if !recent.Covers(horizon, p.d.finder.VisibleSeq.Load()) {
		return errExamineAgain
	}
	known := len(p.keys)
	p.keys = recent.AppendKeys(p.keys, horizon, p.spans.Contains)
	for _, r := range before {
		for _, e := range r.batch.All() {
			if p.spans.Contains(e.Key) {
				p.keys = append(p.keys, slices.Clone(e.Key))
			}
		}
	}
	if len(p.keys) == known {
		return nil
	}
	return p.fill()
}

// deleteByBatch deletes the keys of spans one by one and makes the writes of own, all in one batch.
// It does nothing and returns false if there are too many keys.
func (d *DB) deleteByBatch(ctx context.Context, spans rangedel.Spans, own []rangedel.Entry, wo *WriteOptions) (done bool, err error) {
	d.recent.Begin()
	defer d.recent.End()
	for {
		p := &pointDeletes{d: d, spans: spans, own: own}
		horizon := d.finder.VisibleSeq.Load()
		p.keys, done, err = d.keysIn(ctx, spans)
		if !done || err != nil {
			return err != nil, err
		}
		if err := p.fill(); err != nil {
			return true, err
		}
		err = d.apply(&p.batch, wo, func(before []*commitRequest) error { return p.addRecent(before, horizon) })
		if err != errExamineAgain {
			return true, err
		}
	}
}

// keysIn returns copies of the keys in spans; ok is false if there are too many.
func (d *DB) keysIn(ctx context.Context, spans rangedel.Spans) (keys [][]byte, ok bool, err error) {
	bytes := 0
	for _, span := range spans.All() {
		it, err := d.newIterator(&IterOptions{LowerBound: span.Start, UpperBound: span.Limit}, nil, nil)
		if err != nil {
			return nil, false, err
		}
		it.cursor.ShowExpired() // values without an envelope can be deleted
		for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
			keys, bytes = append(keys, slices.Clone(it.Key())), bytes+len(it.Key())
			if len(keys) > mostPointDeletes || bytes > mostPointBytes {
				return nil, false, it.Close()
			}
		}
		if err := it.Close(); err != nil {
			return nil, false, err
		}
	}
	return keys, true, ctx.Err()
}

// newDeleter returns what deletes ranges by tables.
func (d *DB) newDeleter() *rangedel.Deleter {
	return rangedel.New(rangedel.Options{Cmp: d.cmp, Cache: d.tables, Compactor: d.compactor}, &deleteHost{(*loadHost)(d)})
}

// deleteHost is the store as a deletion of ranges sees it.
type deleteHost struct{ *loadHost }

func (h *deleteHost) db() *DB                               { return (*DB)(h.loadHost) }
func (h *deleteHost) LastVisible() uint64                   { return h.finder.VisibleSeq.Load() }
func (h *deleteHost) RefVersion() *manifest.Version         { return h.finder.Ref().Version }
func (h *deleteHost) Pin() (unpin func())                   { return h.snapshots.Pin() }
func (h *deleteHost) OldestUnpinned() (seq uint64, ok bool) { return h.snapshots.OldestUnpinned() }
func (h *deleteHost) Closing() <-chan struct{}              { return h.closing }

func (h *deleteHost) NewWriter(seq, size uint64) rangedel.Writer {
	o := h.db().loadOptions(seq)
	o.TableSize, o.Ended = max(o.TableSize, size), func() {}
	return load.New(o, h)
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

// FlushLed flushes even if level 0 is full: the deletion may have reserved tables there, and the
// compaction that would make room waits for it.
func (h *deleteHost) FlushLed() error {
	h.crowded = true
	defer func() { h.crowded = false }()
	return h.loadHost.FlushLed()
}

// Install makes the edit visible at one moment: the number before the version, because lookups load
// the version first. A lookup with the new version, which lacks tables, thus never sees
// an old number, which would hide the tombstones.
func (h *deleteHost) Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64) error {
	return h.install(edit, written, seq, func() { h.finder.VisibleSeq.Store(seq) })
}
