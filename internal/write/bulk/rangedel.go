package bulk

import (
	"context"
	"math"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Entry is another write of the batch.
type Entry struct {
	Kind       base.Kind
	Key, Value []byte
}

// Deletion says what DeleteTables did.
type Deletion struct {
	TablesDropped, TablesCovered int
	BytesDropped                 uint64
	Tombstones                   uint64
}

// How far above the last sequence number the tombstones are numbered, which is the number of writes
// that may happen meanwhile. It is less than for a load, so that a load in progress stays above
// several deletions. If more writes happen, a job is repeated with sixteen times as many.
const (
	leastDeletionAhead = base.LoadAhead >> 12
	mostDeletionAhead  = base.LoadAhead >> 4
)

// DeleteTables deletes the keys of spans and makes the writes of own, which ascend, each key once.
func (c *Coordinator) DeleteTables(ctx context.Context, spans Spans, own []Entry) (*Deletion, error) {
	release, err := c.exclude(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	// From here on new snapshots pin the state that they read, so that they do not need the tables that are to be
	// removed.
	defer c.Snapshots.Pin()()
	for ahead := c.deletionAhead; ; {
		j := &deletion{Coordinator: c, ctx: ctx, spans: spans, own: own, ahead: ahead, covered: map[uint64]bool{}}
		switch err := j.run(); {
		case err == errDrained:
		case err != errOvertaken:
			return &j.info, err
		case ahead >= mostDeletionAhead:
			return nil, errors.Newf("sievedb: the deletion of a range: more than %d writes happened during it; delete less at a time", mostDeletionAhead)
		default:
			ahead <<= 4
		}
	}
}

// deletion is an attempt to delete ranges. LevelDB's files have no entry for a range, so a range is deleted by
// removing tables and by writing tombstones. Every reader of the files, also an old LevelDB after a crash, sees the
// range whole or deleted.
//
//  1. The memtables are flushed.
//  2. Tables that lie in the range with all of their keys are reserved, unless a snapshot from before needs them or
//     a compaction merges them.
//  3. All other tables that may have keys in the range are read, and a tombstone is written for each key that has a
//     value there, a deleted one included: the table with the deletion may be removed later. If no snapshot is open
//     these are the few tables at the ends of the range. If the last one is closed meanwhile, the job is repeated.
//  4. As the leader of the writers the job flushes the few writes since then, deletes the entries that
//     they added in the same way, and installs the edit.
//
// A table that a snapshot needs stays, covered by tombstones. Once the last such snapshot is closed, the sweeper
// removes it.
//
// The few tombstones of step 4 have the number after that of the others, and the other writes of a batch the one
// after that: a key may be among the first and the second, and a batch may write a key of a range that it deletes.
type deletion struct {
	*Coordinator
	ctx   context.Context
	spans Spans
	own   []Entry

	ahead   uint64
	from    uint64           // all entries up to this number are in tables of version
	seq     uint64           // of the first tombstones
	version *version.Version // that is read
	drained <-chan struct{}  // closed when no snapshot needs a table any more; nil: nobody looks
	dropAll bool             // no snapshot needs a table
	drop    map[*version.FileMeta]bool
	covered map[uint64]bool // tables that could be removed, except for a snapshot or a compaction
	runs    runs
	undo    []func()
	info    Deletion
}

// run does the job.
func (j *deletion) run() error {
	defer j.end()
	j.from = j.lastVisible()
	if err := j.Flush(); err != nil {
		return err
	}
	if err := j.prepare(); err != nil {
		return err
	}
	if err := j.goOn(j.ctx, j.drained); err != nil {
		return err
	}
	defer j.IgnoreLevel0()()
	return j.Lead(j.ctx, j.install)
}

// end releases what the job holds.
func (j *deletion) end() {
	j.runs.discard()
	for _, f := range slices.Backward(j.undo) {
		f()
	}
}

// prepare does what needs no leadership.
func (j *deletion) prepare() (err error) {
	j.drained = j.Snapshots.Drained()
	j.dropAll = j.drained == nil
	v, reserved, release, err := j.Compactor.Reserve(j.removable)
	if err != nil {
		return err
	}
	j.version = v
	j.undo = append(j.undo, release, v.Unref)
	j.drop = make(map[*version.FileMeta]bool, len(reserved))
	for _, f := range reserved {
		j.drop[f] = true
		j.Cache.LearnRefs(v, f)
	}
	if j.seq, err = reserve("the deletion of a range", j.lastVisible(), j.ahead); err != nil {
		return errors.Wrap(err, "sievedb")
	}
	return j.writeTombstones(j.seq, v, func(*version.FileMeta) bool { return true })
}

// deletionNumbers is how many sequence numbers a job uses.
const deletionNumbers = 3

// removable returns the tables that can be removed whole. Only Reserve calls it, which guards Compacting.
func (j *deletion) removable(v *version.Version) (files []*version.FileMeta) {
	for level := range v.Levels {
		for _, f := range j.spans.Within(v, level) {
			if j.dropAll && !f.Compacting && j.spans.Encloses(f) {
				files = append(files, f)
			}
		}
	}
	return files
}

// writeTombstones writes a tombstone for each live key of the tables of v that are to be read and that are not removed.
func (j *deletion) writeTombstones(seq uint64, v *version.Version, read func(*version.FileMeta) bool) error {
	var files [version.NumLevels][]*version.FileMeta
	for level := range v.Levels {
		for _, f := range j.spans.Within(v, level) {
			if j.drop[f] || !read(f) {
				continue
			}
			files[level] = append(files[level], f)
			if j.spans.Encloses(f) {
				j.covered[f.Num] = true
			}
		}
	}
	out := j.runs.add(j.newRun(seq, 0))
	err := j.live(j.runsOf(files), func(key []byte) error {
		j.info.Tombstones++
		return wrapDeletion(out.add(base.KindDelete, key, nil))
	})
	if err != nil {
		return err
	}
	return wrapDeletion(out.finish())
}

// install does what the leader does: no writer writes meanwhile.
func (j *deletion) install(l Leader) error {
	if err := l.Flush(); err != nil {
		return err
	}
	if l.LastSeq() >= j.seq {
		return errOvertaken
	}
	j.drained = nil // from here on the writers wait
	defer j.Compactor.Hold()()
	if err := j.lateTables(); err != nil {
		return err
	}
	own := j.runs.add(j.newRun(j.seq+2, math.MaxInt64))
	for _, e := range j.own {
		if err := own.add(e.Kind, e.Key, e.Value); err != nil {
			return wrapDeletion(err)
		}
	}
	if err := own.finish(); err != nil {
		return wrapDeletion(err)
	}
	return wrapDeletion(j.apply(l))
}

// lateTables deletes the keys that were written after the version was taken. They are in tables that
// were flushed since, or merged from such tables.
func (j *deletion) lateTables() error {
	known := map[uint64]bool{}
	j.version.Files(func(_ int, f *version.FileMeta) { known[f.Num] = true })
	v, reserved, release, err := j.Compactor.Reserve(func(v *version.Version) []*version.FileMeta {
		return slices.DeleteFunc(j.removable(v), func(f *version.FileMeta) bool { return known[f.Num] })
	})
	if err != nil {
		return err
	}
	j.undo = append(j.undo, release, v.Unref)
	for _, f := range reserved {
		j.drop[f] = true
	}
	late := func(f *version.FileMeta) bool { return !known[f.Num] && j.WrittenSince(f, j.from) }
	return j.writeTombstones(j.seq+1, v, late)
}

func wrapDeletion(err error) error { return errors.Wrap(err, "sievedb: the deletion of a range") }

// apply installs the edit. The tables of all runs but the first lie above the first one's.
func (j *deletion) apply(l Leader) error {
	edit := &manifest.Edit{LastSeq: manifest.Num(j.seq + deletionNumbers - 1)}
	var gone []*version.FileMeta
	v := j.refVersion()
	v.Files(func(level int, f *version.FileMeta) {
		if j.drop[f] {
			gone = append(gone, f)
			edit.Deleted = append(edit.Deleted, version.DeletedFile{Level: level, Num: f.Num})
			j.info.BytesDropped += f.Size
		}
	})
	v.Unref()
	j.info.TablesDropped, j.info.TablesCovered = len(edit.Deleted), len(j.covered)
	first := j.runs[0].take()
	rest := j.runs.take()
	ch := &change{
		kind: changes.DeleteRange, event: j.event(), edit: edit, untraced: txn.Change{Gone: j.spans.hulls(gone)},
		name:  func() ([]*version.FileMeta, error) { return j.rename(append(first, rest...), base.FileTable, false) },
		above: len(rest),
	}
	if err := j.Coordinator.install(l, ch); err != nil {
		return err
	}
	if len(j.covered) > 0 {
		j.sweepLater(edit.LastSeq.Value, j.covered)
	}
	return nil
}

// event describes the deletion for readers of changes.
func (j *deletion) event() (e changes.Event) {
	for _, s := range j.spans.list {
		e.Ranges = append(e.Ranges, changes.Range{Start: s.Start, Limit: s.Limit})
	}
	if len(j.own) > 0 {
		b := batch.Batch{}
		for _, w := range j.own {
			b.Add(w.Kind, w.Key, w.Value)
		}
		e.Own = b.Record(1)
	}
	return e
}
