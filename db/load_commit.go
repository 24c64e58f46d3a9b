package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
)

// commit is Commit for a load with entries. Most of the work is done before writers have to
// wait for it.
func (l *Loader) commit(info *LoadInfo) error {
	if l.out.Open() {
		if err := l.out.EndTable(); err != nil {
			return errors.Wrap(err, "sievedb: load: writing a table")
		}
	}
	if err := l.syncs.Wait(); err != nil {
		return errors.Wrap(err, "sievedb: load: syncing a table")
	}
	if err := l.d.Flush(); err != nil {
		return err
	}
	if err := l.d.compactor.ClearLevel0(context.Background(), l.out.Files); err != nil {
		return err
	}
	err := l.d.commit.run(l.d, &commitRequest{alone: func(*DB) error { return l.install(info) }})
	l.d.compactor.Schedule() // compactions that are due were held back
	return err
}

// maxLoadCrowd is how many tables of a load may go to level 0 because of writes that arrived
// while level 0 was cleared for them. Clearing it again would block all writers for a
// compaction, 0.6 s for a million entries. In a crowded level 0 they are slowed, by at most 50
// ms at a time, and the next load clears it first.
const maxLoadCrowd = 64

// install puts the load's tables into the version. Only the leader runs it.
//
// The memtables are flushed before, because a lookup searches them first, and because
// goleveldb drops entries of the live log below the sequence number of an edit. So they are
// flushed here even if they do not overlap the load.
func (l *Loader) install(info *LoadInfo) error {
	d := l.d
	if err := d.rotateMemtable(0); err != nil {
		return err
	}
	if err := d.waitForMemtables(); err != nil {
		return err
	}
	if d.log.lastSeq >= l.seq {
		return errors.Newf("sievedb: load: more than %d writes happened during it; load less at a time", base.LoadAhead)
	}
	if len(l.out.Files) > maxLoadCrowd {
		if err := d.compactor.ClearLevel0(context.Background(), l.out.Files); err != nil {
			return err
		}
	}
	// Meanwhile no compaction begins: one that does not know these tables might write across
	// them. Nor does an upgrade of filters, whose copies of level 0 would get higher numbers.
	defer d.compactor.Hold()()
	files, err := l.nameTables()
	if err != nil {
		return err
	}
	edit := &manifest.Edit{LastSeq: manifest.Num(l.seq), Added: d.compactor.Place(files)}
	err = d.applyEdit(edit, files, nil)
	if err == nil || manifest.IsUncertain(err) {
		// If the edit is in force all the same, writes from now on must be newer than the
		// load, or the next opening would find them hidden.
		d.log.lastSeq = l.seq
		d.recent.Forget(l.seq)
		d.finder.VisibleSeq.Store(l.seq)
	}
	if err != nil {
		return errors.Wrap(err, "sievedb: load")
	}
	d.log.logged = l.seq
	for _, a := range edit.Added {
		info.Tables[a.Level]++
		info.Bytes += a.File.Size
	}
	d.counters.loads.Add(1)
	d.counters.loadTables.Add(uint64(len(edit.Added)))
	d.counters.loadBytes.Add(info.Bytes)
	return nil
}

// nameTables renames the tables, which have temporary names, durably. The numbers are taken
// now because on level 0 they say which table is newer. After an error no file is left under
// the new names.
func (l *Loader) nameTables() (files []*manifest.FileMeta, err error) {
	d := l.d
	files, l.out.Files = l.out.Files, nil
	for i, f := range files {
		temp, num := d.files.File(base.FileTemp, f.Num), d.set.NewFileNum()
		f.Num = num
		if err = d.fs.Rename(temp, d.files.File(base.FileTable, num)); err != nil {
			l.out.Files = files[i+1:] // to be removed under their present names
			files = files[:i+1]
			d.files.Remove(temp)
			break
		}
	}
	if err == nil {
		err = d.fs.SyncDir(d.dir)
	}
	if err != nil {
		for _, f := range files {
			d.files.Remove(d.files.File(base.FileTable, f.Num))
		}
		return nil, errors.Wrap(err, "sievedb: load: naming the tables")
	}
	return files, nil
}
