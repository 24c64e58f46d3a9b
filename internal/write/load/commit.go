package load

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// Info describes a load and its Commit. db.LoadInfo, which has the same fields, documents them.
type Info struct {
	Entries, Bytes uint64
	Tables         [manifest.NumLevels]int
	Duration       time.Duration
	Err            error
}

// Commit adds the load to the store and ends it. The info is nil if there was nothing to commit.
func (l *Loader) Commit() (*Info, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if l.entries == 0 {
		l.endLocked(base.ErrClosed)
		return nil, nil
	}
	returned := false
	defer func() {
		if !returned {
			l.panickedLocked(recover())
		}
	}()
	start := time.Now()
	info := &Info{Entries: l.entries}
	err := base.NoSpace(l.commit(info))
	info.Duration, info.Err = time.Since(start), err
	if err != nil {
		l.endLocked(err)
	} else {
		l.endLocked(base.ErrClosed)
	}
	returned = true
	return info, err
}

// commit is Commit for a load with entries.
func (l *Loader) commit(info *Info) error {
	if err := l.Finish(); err != nil {
		return err
	}
	if err := l.host.Flush(); err != nil {
		return err
	}
	if err := l.clearLevel0(); err != nil {
		return err
	}
	err := l.host.Lead(func() error { return l.Install(info) })
	l.Compactor.Schedule() // compactions that are due were held back
	if err == errOvertaken && l.Overtaken != nil {
		files := l.out.Files
		l.out.Files = nil
		if l.bulk != nil {
			if files, err = l.publish(files, base.FileTemp); err != nil {
				return errors.Wrap(err, "sievedb: load: naming the tables")
			}
		}
		err = l.Overtaken(files, info)
	}
	return err
}

// clearLevel0 makes room for the tables that go to level 0 because of what is there. Those of a Bulk that
// overlap each other would go there in any case.
func (l *Loader) clearLevel0() error {
	if l.bulk != nil && len(l.bulk.tables.Runs()) > 1 {
		return nil
	}
	return l.Compactor.ClearLevel0(context.Background(), l.out.Files)
}

// errOvertaken says that the store is above the load's sequence number: another load was committed
// that began later, or more writes happened than there were numbers for.
var errOvertaken = errors.Newf("sievedb: load: more than %d writes happened during it; load less at a time", base.LoadAhead)

// Finish ends the last table and waits until all tables are durable. Commit calls it first.
func (l *Loader) Finish() error {
	if l.out.Open() {
		if err := l.endTable(); err != nil {
			return err
		}
	}
	return errors.Wrap(l.syncs.Wait(), "sievedb: load: syncing a table")
}

// Tables returns the number of tables that are complete.
func (l *Loader) Tables() int { return len(l.out.Files) }

// maxCrowd is how many tables of a load may go to level 0 because of writes that arrived
// while level 0 was cleared for them. Clearing it again would block all writers for a
// compaction, 0.6 s for a million entries. In a crowded level 0 they are slowed, by at most 50
// ms at a time, and the next load clears it first.
const maxCrowd = 64

// Install puts the load's tables into the version. Only the leader runs it; Commit calls it last.
//
// The memtables are flushed before, because a lookup searches them first, and because
// goleveldb drops entries of the live log below the sequence number of an edit. So they are
// flushed here even if they do not overlap the load.
func (l *Loader) Install(info *Info) error {
	if err := l.host.FlushLed(); err != nil {
		return err
	}
	if l.host.LastSeq() >= l.Seq {
		return errOvertaken
	}
	if len(l.out.Files) > maxCrowd {
		if err := l.clearLevel0(); err != nil {
			return err
		}
	}
	// Meanwhile no compaction begins: one that does not know these tables might write across
	// them. Nor does an upgrade of filters, whose copies of level 0 would get higher numbers.
	defer l.Compactor.Hold()()
	var files []*manifest.FileMeta
	err := l.host.Between(func() (err error) { files, err = l.Name(); return err })
	if err != nil {
		return err
	}
	last := l.Seq
	if l.bulk != nil {
		last = l.bulk.last
	}
	edit := &manifest.Edit{LastSeq: manifest.Num(last), Added: l.Compactor.Place(files)}
	if err := l.host.Install(edit, files, last); err != nil {
		return errors.Wrap(err, "sievedb: load")
	}
	for _, a := range edit.Added {
		info.Tables[a.Level]++
		info.Bytes += a.File.Size
	}
	return nil
}

// Name renames the tables, which have temporary names, durably, and returns them: they do not
// belong to the load any more. The numbers are taken now because on level 0 they say which table is newer. After an error no file is left under
// the new names.
func (l *Loader) Name() (files []*manifest.FileMeta, err error) {
	if len(l.out.Files) == 0 {
		return nil, nil
	}
	dir := l.Writer.Dir
	files, l.out.Files = l.out.Files, nil
	if l.bulk != nil {
		files, err = l.publish(files, base.FileTable)
		return files, errors.Wrap(err, "sievedb: load: naming the tables")
	}
	for i, f := range files {
		temp, num := dir.File(base.FileTemp, f.Num), l.Writer.NewFileNum()
		f.Num = num
		if err = dir.FS.Rename(temp, dir.File(base.FileTable, num)); err != nil {
			l.out.Files = files[i+1:] // to be removed under their present names
			files = files[:i+1]
			dir.Remove(temp)
			break
		}
	}
	if err == nil {
		err = dir.FS.SyncDir(dir.Path)
	}
	if err != nil {
		for _, f := range files {
			dir.Remove(dir.File(base.FileTable, f.Num))
		}
		return nil, errors.Wrap(err, "sievedb: load: naming the tables")
	}
	return files, nil
}
