package ingest

import (
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/report"
)

const (
	// How far above the last sequence number rewritten entries are numbered, which is the number of
	// writes that may happen meanwhile. It is less than for a load, so that a load in progress stays
	// above several ingests.
	defaultAhead = base.LoadAhead >> 4
	// A job uses a small share of the remaining numbers at most, as loads do.
	shareShift = 24
	// How often a job leads before it rewrites tables while it leads, so that writers wait. Other
	// loads and ingests may overtake it again and again.
	patience = 3
)

// freeSeq is the largest sequence number up to which a table stays as it is however far it is above the
// store's. It leaves 255 of 256 numbers.
const freeSeq = (base.MaxSeq + 1) >> 8

// errAgain says that a table must be rewritten, or rewritten again.
var errAgain = errors.Sentinel("sievedb: a table must be rewritten")

// errTooFew returns the error of a store that has used almost all sequence numbers.
func errTooFew(last uint64) error {
	return errors.Newf("too few sequence numbers: %d are used, %d are the limit of the format", last, base.MaxSeq)
}

// commit adds the tables, which are sorted, to the store.
func (j *job) commit() error {
	if len(j.tables) == 0 {
		return nil
	}
	if err := j.host.Flush(); err != nil {
		return err
	}
	j.separate()
	v := j.host.RefVersion()
	j.demote(v, j.host.LastVisible(), false)
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
func (j *job) separate() {
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
func (j *job) demote(v *manifest.Version, last uint64, seen bool) (any bool) {
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
func overlaps(v *manifest.Version, t *table) bool {
	for level := range v.Levels {
		if len(v.Overlapping(level, t.smallest(), t.largest())) > 0 {
			return true
		}
	}
	return false
}

// install adds the tables as they are now.
func (j *job) install() error {
	if err := j.clearLevel0(); err != nil {
		return err
	}
	release, err := j.host.Exclude(j.ctx)
	if err != nil {
		return err
	}
	defer release()
	defer j.host.Pin()()
	seen := j.waitForSnapshots()
	err = j.host.Lead(func() error { return j.installLed(seen) })
	j.Compactor.Schedule() // compactions that are due were held back
	return err
}

// clearLevel0 makes room for the tables that will be in level 0.
func (j *job) clearLevel0() error {
	files := make([]*manifest.FileMeta, len(j.tables))
	for i, t := range j.tables {
		files[i] = t.meta
	}
	return j.Compactor.ClearLevel0(j.ctx, files)
}

// How long a job waits for snapshots from before, and how often it looks.
const (
	snapshotWait = 50 * time.Millisecond
	snapshotLook = time.Millisecond
)

// waitForSnapshots waits a little for the snapshots that do not pin their state, because most
// transactions are short, and reports whether one is left. It does not wait if none would see a table.
func (j *job) waitForSnapshots() (seen bool) {
	last := j.host.LastVisible()
	if !slices.ContainsFunc(j.tables, func(t *table) bool { return !t.rewrite && t.minSeq <= last }) {
		_, seen = j.host.OldestUnpinned()
		return seen
	}
	for end := time.Now().Add(snapshotWait); ; time.Sleep(snapshotLook) {
		if _, seen = j.host.OldestUnpinned(); !seen {
			return false
		}
		if time.Now().After(end) || j.goOn() != nil {
			return true
		}
	}
}

// installLed does what the leader does: no writer writes meanwhile.
func (j *job) installLed(seen bool) error {
	if err := j.goOn(); err != nil {
		return err
	}
	if err := j.host.FlushLed(); err != nil {
		return err
	}
	// Meanwhile no compaction begins: one that does not know these tables might write across them.
	defer j.Compactor.Hold()()
	last := j.host.LastSeq()
	if j.outdated(last, seen) {
		if j.tries++; j.tries < patience {
			return errAgain
		}
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
		return errTooFew(last)
	}
	if err := j.unchanged(); err != nil {
		return err
	}
	return j.apply(last, seq)
}

// outdated reports whether tables must be rewritten, perhaps again. It marks them.
func (j *job) outdated(last uint64, seen bool) bool {
	v := j.host.RefVersion()
	defer v.Unref()
	again := j.demote(v, last, seen)
	return j.overtaken(last) || again
}

// overtaken reports whether the number of the rewritten entries is not above the store's any more. Then
// they must be written again.
func (j *job) overtaken(last uint64) bool {
	if j.seq == 0 || last < j.seq {
		return false
	}
	j.seq = 0
	j.closeWriters()
	for _, t := range j.tables {
		t.written = false
	}
	return true
}

// unchanged checks that no program has written to a table under its other name.
func (j *job) unchanged() error {
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

// apply names the tables and installs the edit. last is the last number that was assigned, and seq is at
// least that of all entries. Snapshots of after the installation have the number after seq.
func (j *job) apply(last, seq uint64) error {
	info := report.Ingest{Seq: seq + 1}
	var files []*manifest.FileMeta
	err := j.host.Between(func() (err error) { files, err = j.name(&info); return err })
	if err != nil {
		return err
	}
	edit := &manifest.Edit{LastSeq: manifest.Num(seq + 1), Added: j.Compactor.Place(files)}
	var came []*manifest.FileMeta
	for _, t := range j.tables {
		if !t.rewrite && t.minSeq <= last {
			came = append(came, t.meta)
		}
	}
	if err := j.host.Install(edit, files, seq+1, came); err != nil {
		return err
	}
	for _, a := range edit.Added {
		info.Tables[a.Level]++
	}
	for _, t := range j.tables {
		info.Entries += t.entries
	}
	j.info = info
	return nil
}

// name names all tables durably. After an error no file is left under the new names.
func (j *job) name(info *report.Ingest) (files []*manifest.FileMeta, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, f := range files {
			j.Dir.Remove(j.Dir.File(base.FileTable, f.Num))
		}
		files = nil
	}()
	for _, t := range j.tables {
		if t.rewrite {
			info.Rewritten++
			continue
		}
		num := j.NewFileNum()
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
	for _, w := range j.writers {
		written, err := w.Name()
		if err != nil {
			return files, err
		}
		for _, f := range written {
			info.BytesRewritten += f.Size
		}
		files = append(files, written...)
	}
	return files, j.Dir.FS.SyncDir(j.Dir.Path)
}
