package repair

import (
	"bytes"
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// run is a sorted run in a file: a table of the directory, or one that the repair made. A run that the repair made has
// the name of a temporary file until the repair installs it, so neither Open nor another repair treats it as a table.
type run struct {
	path    string
	meta    *version.FileMeta
	entries uint64
	table   *foundTable // nil for one that the repair made
	from    uint64      // the greatest number of the tables that its entries come from
}

func (r *Repairer) tableRun(t *foundTable) *run {
	return &run{path: r.path(t.name), meta: t.meta(), table: t, from: t.Num}
}

// maxEntry is the largest entry, key and value, that sstable.Writer can write.
const maxEntry = math.MaxInt32 / 2

// keepFunc decides whether an entry goes to the run being written. It may raise the sequence number in ikey
// of the first entry of a key. from is run.from.
type keepFunc func(ikey []byte, from uint64) (bool, error)

// writeRuns writes the entries of it, which are in the order of internal keys, to tables of about
// targetSize bytes. No user key is in two tables. If several entries have the same user key and
// sequence number, moreRecent chooses the one to write. A nil keep keeps all entries.
func (r *Repairer) writeRuns(it base.Iterator, targetSize uint64, keep keepFunc) ([]*run, error) {
	w := &runWriter{r: r, targetSize: targetSize}
	var key, value []byte
	var from uint64
	pending := false
	flush := func() error {
		if !pending {
			return nil
		}
		pending = false
		if keep != nil {
			if ok, err := keep(key, from); !ok || err != nil {
				return err
			}
		}
		return w.add(key, r.sealed.seal(key, value))
	}
	for ok := it.First(); ok; ok = it.Next() {
		if pending && base.SameVersion(r.cmp, key, it.Key()) {
			r.report.EntriesDuplicate++
			if other := sourceOf(it); r.moreRecent(key, value, from, it.Key(), it.Value(), other) {
				key, value, from = append(key[:0], it.Key()...), append(value[:0], it.Value()...), other
			}
			continue
		}
		if err := flush(); err != nil {
			return nil, w.abandon(err)
		}
		if uint64(len(it.Key()))+uint64(len(it.Value())) > maxEntry {
			r.report.EntriesTooLarge++
			continue
		}
		key, value, from = append(key[:0], it.Key()...), append(value[:0], it.Value()...), sourceOf(it)
		pending = true
	}
	err := it.Err()
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = w.endTable()
	}
	if err != nil {
		return nil, w.abandon(err)
	}
	return w.runs, nil
}

// moreRecent reports whether entry B, of table numB, is written instead of entry A, of table numA.
// Both have the same user key and sequence number; A comes first in the order of internal keys.
//
// A compaction gives sequence number 0 to an entry without older versions below it. If the key was
// written and compacted again, and the former table still exists, the newer table has the newer
// value. Other differences are not left by a correct program. Then the entry that sets the key wins,
// or the one with the greater value, so a second repair chooses the same.
func (r *Repairer) moreRecent(keyA, valueA []byte, numA uint64, keyB, valueB []byte, numB uint64) bool {
	if seq, _ := base.SplitTrailer(base.Trailer(keyA)); seq == 0 && numA != numB {
		return numB > numA
	}
	if base.Trailer(keyA) != base.Trailer(keyB) { // the first sets the key, the second deletes it
		r.report.EntriesConflicting++
		return false
	}
	c := bytes.Compare(valueB, valueA)
	if c != 0 {
		r.report.EntriesConflicting++
	}
	return c > 0
}

// sourceOf returns the number of the table of the current entry, 0 for a memtable.
func sourceOf(it base.Iterator) uint64 {
	if m, ok := it.(*tables.MergingIter); ok {
		it = m.Current()
	}
	if c, ok := it.(*chainIter); ok {
		return c.present().from
	}
	return 0
}

// runWriter writes one table after another, under temporary names.
type runWriter struct {
	r          *Repairer
	targetSize uint64
	runs       []*run

	num  uint64 // of the open table
	file vfs.File
	w    *sstable.Writer // nil if no table is open
}

func (w *runWriter) add(ikey, value []byte) error {
	if w.w != nil && w.w.EstimatedSize() >= w.targetSize &&
		w.r.cmp.Compare(base.UserKey(w.w.Largest()), base.UserKey(ikey)) != 0 {
		if err := w.endTable(); err != nil {
			return err
		}
	}
	if w.w == nil {
		w.num = w.r.newNum()
		name := base.FileName(base.FileTemp, w.num)
		w.r.made[name] = true
		file, err := w.r.fs.Create(w.r.path(name))
		if err != nil {
			return err
		}
		w.file = file
		w.w = sstable.NewWriter(file, w.r.opts.Table)
	}
	if seq, _ := base.SplitTrailer(base.Trailer(ikey)); seq == 0 {
		w.w.CoverSeq(w.r.lastSeq)
	}
	return w.w.Add(ikey, value)
}

// endTable finishes the open table and makes its bytes durable.
func (w *runWriter) endTable() error {
	if w.w == nil {
		return nil
	}
	props, err := w.w.Finish()
	if err == nil {
		err = w.file.Sync()
	}
	err = errors.CombineErrors(err, w.file.Close())
	w.file = nil
	if err != nil {
		return err
	}
	w.runs = append(w.runs, &run{
		path:    w.r.path(base.FileName(base.FileTemp, w.num)),
		meta:    version.NewFileMeta(w.num, w.w.Size(), w.w.Smallest(), bytes.Clone(w.w.Largest())),
		entries: props.Entries,
	})
	w.w = nil
	return nil
}

// abandon closes the open files; Repairer.abandon removes the files.
func (w *runWriter) abandon(err error) error {
	if w.file != nil {
		err = errors.CombineErrors(err, w.file.Close())
	}
	return err
}

// discard removes runs that the repair made and does not need any more.
func (r *Repairer) discard(runs []*run) {
	for _, u := range runs {
		if u.table != nil {
			continue
		}
		name := base.FileName(base.FileTemp, u.meta.Num)
		if err := r.fs.Remove(r.path(name)); err != nil {
			r.opts.Logger.Warn("cannot remove a temporary file", "file", name, "err", err)
			continue
		}
		delete(r.made, name)
	}
}

// spill sorts entries that arrive in any order. It adds them to a memtable and writes the memtable as
// a run when it is full.
type spill struct {
	r    *Repairer
	mem  *memtable.Memtable // nil if there are no entries
	ins  memtable.Inserter
	runs []*run
	from uint64 // run.from of the entries in mem
}

func (s *spill) add(seq uint64, kind base.Kind, key, value []byte) error {
	if uint64(len(key))+uint64(len(value)) > maxEntry-base.TrailerLen {
		s.r.report.EntriesTooLarge++
		return nil
	}
	need := memtable.EntrySize(len(key), len(value))
	if s.mem != nil && s.mem.Available() < need {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.mem == nil {
		s.mem = memtable.New(s.r.cmp, max(memtable.ArenaSize(s.r.opts.WriteBufferSize), need+memtable.Slack))
		s.ins = memtable.Inserter{}
	}
	if !s.mem.AddWith(&s.ins, seq, kind, key, value) {
		panic("repair: the memtable is full although room was made for the entry")
	}
	return nil
}

func (s *spill) flush() error {
	if s.mem == nil {
		return nil
	}
	it := s.mem.NewIter()
	runs, err := s.r.writeRuns(it, math.MaxUint64, nil)
	for _, u := range runs {
		u.from = s.from
	}
	s.runs = append(s.runs, runs...)
	s.mem = nil
	return errors.CombineErrors(err, it.Close())
}

// salvage writes the readable entries of damaged tables, and those of the logs, to sorted runs.
func (r *Repairer) salvage(p *plan) ([]*run, error) {
	s := &spill{r: r}
	for _, t := range p.damaged {
		if err := r.spillTable(s, t); err != nil {
			return nil, err
		}
	}
	s.from = 0
	for _, l := range r.logs {
		if !l.needed {
			continue
		}
		if err := r.readLog(l, s.add); err != nil {
			return nil, err
		}
	}
	err := s.flush()
	return s.runs, err
}

// spillTable writes the readable entries of a table to sorted runs.
func (r *Repairer) spillTable(s *spill, t *foundTable) error {
	s.from = t.Num
	_, err := r.salvageTable(t, func(ikey, value []byte) error {
		ikey, value, ok, err := r.home(ikey, value)
		if !ok || err != nil {
			return err
		}
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		return s.add(seq, kind, base.UserKey(ikey), value)
	})
	if err == nil {
		err = s.flush()
	}
	return err
}
