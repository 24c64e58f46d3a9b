package bulk

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// runsOf returns an iterator for each table of level 0, and one for each other level.
func (j *deletion) runsOf(files [version.NumLevels][]*version.FileMeta) (runs []base.Iterator) {
	add := func(files []*version.FileMeta) {
		if len(files) > 0 {
			runs = append(runs, tables.NewLevelIter(j.Cache, j.Cmp, files, sstable.IterOptions{NoFillCache: true}))
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

// checkEvery is how many keys are read between two looks at the context, the store and the snapshots.
const checkEvery = 1024

// live calls emit for each key of the runs in the spans that has a value there, even if a newer entry of the runs
// deletes it: the table of that entry may be removed while the value's stays. It closes the runs.
func (j *deletion) live(runs []base.Iterator, emit func(key []byte) error) (err error) {
	if len(runs) == 0 {
		return nil
	}
	m := tables.NewMergingIter(j.Cmp, runs)
	defer func() {
		if closing := m.Close(); err == nil {
			err = closing
		}
	}()
	w := walk{deletion: j, m: m, emit: emit}
	for _, a := range j.spans.list {
		if err := w.span(a); err != nil {
			return err
		}
	}
	return nil
}

// walk is a call of live.
type walk struct {
	*deletion
	m    *tables.MergingIter
	emit func(key []byte) error
	seek []byte
	key  []byte
	keys int
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
		if a.Limit != nil && w.Cmp.Compare(user, a.Limit) >= 0 {
			break
		}
		w.key = append(w.key[:0], user...)
		hasValue := false
		for ok && w.Cmp.Compare(base.UserKey(w.m.Key()), w.key) == 0 {
			_, kind := base.SplitTrailer(base.Trailer(w.m.Key()))
			hasValue = hasValue || kind != base.KindDelete
			ok = w.m.Next()
		}
		if hasValue {
			if err := w.emit(w.key); err != nil {
				return err
			}
		}
		if w.keys++; w.keys%checkEvery == 0 {
			if err := w.goOn(w.ctx, w.drained); err != nil {
				return err
			}
		}
	}
	return w.m.Err()
}
