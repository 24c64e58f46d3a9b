package rangedel

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/sstable"
)

// runsOf returns an iterator for each table of level 0, and one for each other level.
func (d *Deleter) runsOf(files [manifest.NumLevels][]*manifest.FileMeta) (runs []base.Iterator) {
	add := func(files []*manifest.FileMeta) {
		if len(files) > 0 {
			runs = append(runs, tables.NewLevelIter(d.Cache, d.Cmp, files, sstable.IterOptions{NoFillCache: true}))
		}
	}
	for i := range files[0] {
		add(files[0][i : i+1])
	}
	for _, level := range files[1:] {
		add(level)
	}
	return runs
}

// checkEvery is how many keys are read between two looks at the context and the store.
const checkEvery = 1024

// live calls emit for each key of the runs in the spans that has a value there, even if a newer entry
// of the runs deletes it: the table of that entry may be removed while the value's stays. It closes
// the runs.
func (d *Deleter) live(ctx context.Context, runs []base.Iterator, spans Spans, emit func(key []byte) error) (err error) {
	if len(runs) == 0 {
		return nil
	}
	m := tables.NewMergingIter(d.Cmp, runs)
	defer func() {
		if closing := m.Close(); err == nil {
			err = closing
		}
	}()
	w := walk{m: m, cmp: d.Cmp, ctx: ctx, closing: d.host.Closing(), emit: emit}
	for _, a := range spans.list {
		if err := w.span(a); err != nil {
			return err
		}
	}
	return nil
}

// walk is a call of live.
type walk struct {
	m    *tables.MergingIter
	cmp  *base.Comparer
	ctx  context.Context
	emit func(key []byte) error
	seek []byte
	key  []byte
	keys int

	closing <-chan struct{}
}

// ended returns why the walk must end.
func (w *walk) ended() error {
	select {
	case <-w.closing:
		return base.ErrClosed
	default:
		return w.ctx.Err()
	}
}

func (w *walk) span(a Span) error {
	ok := false
	if a.Start == nil {
		ok = w.m.First()
	} else {
		w.seek = base.AppendInternalKey(w.seek[:0], a.Start, base.MaxSeq, base.KindSeek)
		ok = w.m.SeekGE(w.seek)
	}
	for ok {
		user := base.UserKey(w.m.Key())
		if a.Limit != nil && w.cmp.Compare(user, a.Limit) >= 0 {
			break
		}
		w.key = append(w.key[:0], user...)
		hasValue := false
		for ok && w.cmp.Compare(base.UserKey(w.m.Key()), w.key) == 0 {
			_, kind := base.SplitTrailer(base.Trailer(w.m.Key()))
			hasValue = hasValue || kind == base.KindSet
			ok = w.m.Next()
		}
		if hasValue {
			if err := w.emit(w.key); err != nil {
				return err
			}
		}
		if w.keys++; w.keys%checkEvery == 0 {
			if err := w.ended(); err != nil {
				return err
			}
		}
	}
	return w.m.Err()
}
