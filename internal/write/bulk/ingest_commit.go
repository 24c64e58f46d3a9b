package bulk

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/report"
)

// Keys have their sequence numbers in the table, and LevelDB's format has no number for all of it. So a table stays
// as it is if it shares no user key range with another table of the call, and
//
//   - its sequence numbers are above all of the store's, or
//   - nothing in the store lies in its range, and no snapshot is open that would see it.
//
// The last sequence number of the store becomes at least the table's largest, and rises by one at least. Numbers far
// above the store's would exhaust them, so such a table is rewritten as well.

const (
	// How far above the last sequence number rewritten entries are numbered, which is the number of writes that may
	// happen meanwhile. It is less than for a load, so that a load in progress stays above several ingests.
	ingestAhead = base.LoadAhead >> 4
	// How often a job leads before it rewrites tables while it leads, so that writers wait. Other
	// loads and ingests may overtake it again and again.
	patience = 3
)

// freeSeq is the largest sequence number up to which a table stays as it is however far it is above the
// store's. It leaves 255 of 256 numbers.
const freeSeq = (base.MaxSeq + 1) >> 8

// errAgain says that a table must be rewritten, or rewritten again.
var errAgain = errors.Sentinel("sievedb: a table must be rewritten")

// commit adds the tables, which are sorted, to the store.
func (j *ingest) commit() error {
	if len(j.tables) == 0 {
		return nil
	}
	if err := j.Flush(); err != nil {
		return err
	}
	j.separate()
	v := j.refVersion()
	j.demote(v, j.lastVisible(), false)
	v.Unref()
	for {
		if err := j.rewrite(); err != nil {
			return err
		}
		if err := j.install(); err != errAgain {
			return err
		}
	}
}

// separate marks the tables that share a range with another one, directly or through a third.
func (j *ingest) separate() {
	last := j.tables[0] // the one that ends last
	for _, t := range j.tables[1:] {
		if j.Cmp.Compare(t.smallest(), last.largest()) <= 0 {
			t.rewrite, last.rewrite = true, true
		}
		if j.Cmp.Compare(t.largest(), last.largest()) > 0 {
			last = t
		}
	}
}

// demote marks the tables that cannot stay as they are, and reports whether there are any. last is the
// last sequence number, and seen says that a snapshot would see old numbers.
func (j *ingest) demote(v *version.Version, last uint64, seen bool) (any bool) {
	limit := max(freeSeq, last+(base.MaxSeq-last)>>shareShift)
	for _, t := range j.tables {
		switch {
		case t.rewrite:
			continue
		case t.maxSeq > limit:
		case t.minSeq > last:
			continue
		case !seen && !overlaps(v, t):
			continue
		}
		t.rewrite, any = true, true
	}
	return any
}

// overlaps reports whether the range of t has a table of v.
func overlaps(v *version.Version, t *table) bool {
	for level := range v.Levels {
		if len(v.Overlapping(level, t.smallest(), t.largest())) > 0 {
			return true
		}
	}
	return false
}

// install adds the tables as they are now. Numbers below the visible one would let a snapshot from before see a
// table, so new ones pin what they read until the end of the job.
func (j *ingest) install() error {
	if err := j.clearLevel0(); err != nil {
		return err
	}
	release, err := j.exclude(j.ctx)
	if err != nil {
		return err
	}
	defer release()
	if j.unpin == nil {
		j.unpin = j.Snapshots.Pin()
	}
	seen, err := j.respectSnapshots()
	if err == nil {
		err = j.Lead(j.ctx, func(l Leader) error { return j.installLed(l, seen) })
	}
	j.Compactor.Schedule() // compactions that are due were held back
	return err
}

// respectSnapshots reports whether a snapshot is open that would see old numbers. If it would see those of a table
// that could stay otherwise, the table is marked, to be rewritten unless the snapshots are closed meanwhile.
func (j *ingest) respectSnapshots() (seen bool, err error) {
	drained, last := j.Snapshots.Drained(), j.lastVisible()
	if drained == nil {
		return false, nil
	}
	for _, t := range j.tables {
		if !t.rewrite && t.minSeq <= last {
			t.rewrite, t.seen = true, true
			j.drained, err = drained, errAgain
		}
	}
	return true, err
}

// clearLevel0 makes room for the tables that will be in level 0.
func (j *ingest) clearLevel0() error {
	files := make([]*version.FileMeta, len(j.tables))
	for i, t := range j.tables {
		files[i] = t.meta
	}
	return j.Compactor.ClearLevel0(j.ctx, files)
}

// installLed does what the leader does: no writer writes meanwhile.
func (j *ingest) installLed(l Leader, seen bool) error {
	if err := j.goOn(j.ctx, nil); err != nil {
		return err
	}
	if err := l.Flush(); err != nil {
		return err
	}
	// Meanwhile no compaction begins: one that does not know these tables might write across them.
	defer j.Compactor.Hold()()
	last := l.LastSeq()
	if j.outdated(last, seen) {
		if j.tries++; j.tries < patience {
			return errAgain
		}
		j.drained = nil // a table that stays after all would have to be looked at again
		if err := j.rewrite(); err != nil {
			return err
		}
	}
	seq := max(last+1, j.seq)
	for _, t := range j.tables {
		if !t.rewrite {
			seq = max(seq, t.maxSeq)
		}
	}
	if seq >= base.MaxSeq {
		return errTooFew("an ingest", last)
	}
	if err := j.unchanged(); err != nil {
		return err
	}
	return j.apply(l, last, seq)
}

// outdated reports whether tables must be rewritten, perhaps again. It marks them.
func (j *ingest) outdated(last uint64, seen bool) bool {
	v := j.refVersion()
	defer v.Unref()
	again := j.demote(v, last, seen)
	return j.overtaken(last) || again
}

// overtaken reports whether the number of the rewritten entries is not above the store's any more. Then
// they must be written again.
func (j *ingest) overtaken(last uint64) bool {
	if j.seq == 0 || last < j.seq {
		return false
	}
	j.seq = 0
	j.runs.discard()
	for _, t := range j.tables {
		t.written = false
	}
	return true
}

// unchanged checks that no program has written to a table under its other name.
func (j *ingest) unchanged() error {
	for _, t := range j.tables {
		if t.ours {
			continue
		}
		info, err := j.Dir.FS.Lstat(j.Dir.File(base.FileTemp, t.temp))
		if err == nil && (info.Size() != t.info.Size() || !info.ModTime().Equal(t.info.ModTime())) {
			err = errors.New("it was changed while it was checked; ingest a table only when it is complete")
		}
		if err != nil {
			return base.InFile(err, t.path, -1)
		}
	}
	return nil
}

// apply installs the tables. last is the last number that was assigned, and seq is at least that of all entries.
// Snapshots of after the installation have the number after seq.
func (j *ingest) apply(l Leader, last, seq uint64) error {
	info := report.Ingest{Seq: seq + 1}
	ch := &change{
		kind: j.kind, edit: &manifest.Edit{LastSeq: manifest.Num(seq + 1)},
		name: func() ([]*version.FileMeta, error) { return j.name(&info) },
	}
	for _, t := range j.tables {
		if !t.rewrite && t.minSeq <= last {
			ch.untraced.Came = append(ch.untraced.Came, txn.RangeOf(t.meta))
		}
	}
	if err := j.Coordinator.install(l, ch); err != nil {
		return err
	}
	for _, a := range ch.edit.Added {
		info.Tables[a.Level]++
	}
	for _, t := range j.tables {
		info.Entries += t.entries
	}
	j.info = info
	return nil
}

// name names all tables durably. After an error no file is left under the new names.
func (j *ingest) name(info *report.Ingest) (files []*version.FileMeta, err error) {
	defer func() {
		if err == nil {
			return
		}
		j.remove(files, base.FileTable)
		files = nil
	}()
	for _, t := range j.tables {
		if t.rewrite {
			info.Rewritten++
			continue
		}
		if err := j.Dir.Verify(); err != nil {
			return files, err
		}
		num := j.Set.NewFileNum()
		if err := j.Dir.FS.Rename(j.Dir.File(base.FileTemp, t.temp), j.Dir.File(base.FileTable, num)); err != nil {
			return files, base.InFile(err, t.path, -1)
		}
		t.here, t.meta.Num = false, num
		files = append(files, t.meta)
		if t.linked {
			info.Linked++
			info.BytesLinked += t.meta.Size
		} else {
			info.Copied++
			info.BytesCopied += t.meta.Size
		}
	}
	written, err := j.Coordinator.rename(j.runs.take(), base.FileTable, false)
	for _, f := range written {
		info.BytesRewritten += f.Size
	}
	files = append(files, written...)
	if err == nil && len(written) < len(files) { // rename has synced the names that it gave
		err = j.Dir.FS.SyncDir(j.Dir.Path)
	}
	return files, err
}
