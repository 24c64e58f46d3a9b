package bulk

import (
	"context"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// The most keys, and bytes of them, that a range may have to be deleted like a batch.
const (
	mostPointDeletes = 10_000
	mostPointBytes   = 1 << 20
)

// CheckBounds returns why a range cannot be deleted; nil bounds are none.
func CheckBounds(cmp *base.Comparer, start, limit []byte) error {
	if start != nil && limit != nil && cmp.Compare(start, limit) > 0 {
		return errors.New("sievedb: DeleteRange: start is after limit; pass the key that sorts first as start")
	}
	return nil
}

// Parse returns the ranges that a batch deletes, and its last write for each key that it writes and
// does not delete by a range, in the order of the keys.
func Parse(cmp *base.Comparer, b *batch.Batch) (spans Spans, own []Entry, err error) {
	var list []Span
	for _, e := range b.All() {
		switch e.Kind {
		case batch.EntryDeleteRange:
			if err := CheckBounds(cmp, e.Key, e.Value); err != nil {
				return Spans{}, nil, err
			}
			list = append(list, Span{Start: e.Key, Limit: e.Value})
			span := NewSpans(cmp, list[len(list)-1:])
			own = slices.DeleteFunc(own, func(e Entry) bool { return span.Contains(e.Key) })
		case batch.EntryDelete:
			own = append(own, Entry{Kind: base.KindDelete, Key: e.Key})
		default:
			own = append(own, Entry{Kind: base.KindSet, Key: e.Key, Value: e.Value})
		}
	}
	slices.Reverse(own) // the last write of a key comes first and stays
	slices.SortStableFunc(own, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	own = slices.CompactFunc(own, func(a, b Entry) bool { return cmp.Compare(a.Key, b.Key) == 0 })
	return NewSpans(cmp, list), own, nil
}

// Apply queues a batch. When its turn comes, the leader calls check; see txn.Check. It returns the error of check as
// it is.
type Apply func(b *batch.Batch, check txn.Check) error

// points is the deletion of ranges as a batch of deletions and other writes.
type points struct {
	*Coordinator
	spans Spans
	own   []Entry
	keys  [][]byte // to delete
	batch batch.Batch
}

// DeletePoints deletes the keys of spans one by one and makes the writes of own, all in one batch. It does nothing
// and returns false if a table lies in the spans as a whole, or if there are too many keys: otherwise an edit would
// cost more than a batch of tombstones. The keys that others write meanwhile are added by the leader, as the reads of
// a transaction are checked by it; see package txn.
func (c *Coordinator) DeletePoints(ctx context.Context, spans Spans, own []Entry, apply Apply) (done bool, err error) {
	if spans.AnyTable(c.Current.State.Load().Version) {
		return false, nil
	}
	c.Recent.Begin()
	defer c.Recent.End()
	for {
		p := &points{Coordinator: c, spans: spans, own: own}
		horizon := c.lastVisible()
		done, err = p.find(ctx)
		if !done || err != nil {
			return err != nil, err
		}
		if err := p.fill(); err != nil {
			return true, err
		}
		err = apply(&p.batch, func(before []*batch.Batch) error { return p.addRecent(before, horizon) })
		if err != txn.ErrExamineAgain {
			return true, err
		}
	}
}

// find collects copies of the keys in the spans; ok is false if there are too many.
func (p *points) find(ctx context.Context) (ok bool, err error) {
	bytes := 0
	few := func() bool { return len(p.keys) <= mostPointDeletes && bytes <= mostPointBytes }
	for _, span := range p.spans.All() {
		err := p.Keys(span, func(key []byte) bool {
			if ctx.Err() != nil {
				return false
			}
			p.keys, bytes = append(p.keys, slices.Clone(key)), bytes+len(key)
			return few()
		})
		if err != nil || !few() {
			return false, err
		}
	}
	return true, ctx.Err()
}

// fill makes the batch.
func (p *points) fill() error {
	p.batch.Reset()
	for _, key := range p.keys {
		p.batch.Add(base.KindDelete, key, nil)
	}
	for _, e := range p.own {
		p.batch.Add(e.Kind, e.Key, e.Value)
	}
	p.batch.MarkSealed()
	return p.batch.Refused()
}

// addRecent adds the keys that were committed above horizon, and those of the batches that the
// leader commits before this one. Only the leader runs it.
func (p *points) addRecent(before []*batch.Batch, horizon uint64) error {
	if !p.Recent.Covers(horizon, p.lastVisible()) {
		return txn.ErrExamineAgain
	}
	known := len(p.keys)
	p.keys = p.Recent.AppendKeys(p.keys, horizon, p.spans.Contains)
	for _, b := range before {
		for _, e := range b.All() {
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
