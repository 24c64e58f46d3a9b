package bulk

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/report"
)

// Commit adds the load to the store and ends it. The info is nil if there was nothing to commit.
//
// Most of the work is done before writers have to wait: it makes all tables durable, flushes the memtables, and
// compacts the part of level 0 that the load crosses.
func (l *Loader) Commit() (*report.LoadInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if l.run.entries == 0 {
		l.endLocked(base.ErrClosed)
		return nil, nil
	}
	start := time.Now()
	info := &report.LoadInfo{Entries: l.run.entries}
	err := l.guardLocked(func() error {
		err := base.NoSpace(l.commit(info))
		info.Duration, info.Err = time.Since(start), err
		if err != nil {
			l.endLocked(err)
		} else {
			l.endLocked(base.ErrClosed)
		}
		return err
	})
	return info, err
}

// commit is Commit for a load with entries.
func (l *Loader) commit(info *report.LoadInfo) error {
	if err := l.run.finish(); err != nil {
		return errors.Wrap(err, "sievedb: load")
	}
	if err := l.c.Flush(); err != nil {
		return err
	}
	if err := l.clearLevel0(); err != nil {
		return err
	}
	err := l.lead(info)
	l.c.Compactor.Schedule() // compactions that are due were held back
	if err == errOvertaken {
		err = l.adopt(info)
	}
	return err
}

// errOvertaken says that the store has come up to a job's sequence number: another change was installed whose number
// is higher, or more writes happened than there were numbers for.
var errOvertaken = errors.Sentinel("sievedb: the sequence number of a change is too low by now")

func (l *Loader) lead(info *report.LoadInfo) error {
	end, err := l.c.exclude(context.Background())
	if err != nil {
		return err
	}
	defer end()
	return l.c.Lead(context.Background(), func(leader Leader) error { return l.install(leader, info) })
}

// clearLevel0 makes room for the tables that go to level 0 because of what is there. Those of a Transaction that
// overlap each other would go there in any case.
func (l *Loader) clearLevel0() error {
	if l.tx != nil && len(l.tx.tables.Runs()) > 1 {
		return nil
	}
	return l.c.Compactor.ClearLevel0(context.Background(), l.run.out.Files)
}

// maxCrowd is how many tables of a load may go to level 0 because of writes that arrived while level 0 was cleared for
// them. Clearing it again would block all writers for a compaction, 0.6 s for a million entries. In a crowded level 0
// they are slowed, by at most 50 ms at a time, and the next load clears it first.
const maxCrowd = 64

// install puts the load's tables into the version. Only the leader runs it.
func (l *Loader) install(leader Leader, info *report.LoadInfo) error {
	if err := leader.Flush(); err != nil {
		return err
	}
	if leader.LastSeq() >= l.run.seq {
		return errOvertaken
	}
	if len(l.run.out.Files) > maxCrowd {
		if err := l.clearLevel0(); err != nil {
			return err
		}
	}
	// Meanwhile no compaction begins: one that does not know these tables might write across
	// them. Nor does an upgrade of filters, whose copies of level 0 would get higher numbers.
	defer l.c.Compactor.Hold()()
	last := l.run.seq
	if l.tx != nil {
		last = l.tx.last
	}
	ch := &change{
		kind: changes.Load, edit: &manifest.Edit{LastSeq: manifest.Num(last)},
		name: func() ([]*version.FileMeta, error) { return l.rename(base.FileTable) },
	}
	if err := l.c.install(leader, ch); err != nil {
		return errors.Wrap(err, "sievedb: load")
	}
	for _, a := range ch.edit.Added {
		info.Tables[a.Level]++
		info.Bytes += a.File.Size
	}
	return nil
}

// rename gives the tables names of a kind; see Coordinator.rename. If there is an iterator over a Transaction, the
// present names stay until the last iterator is closed.
func (l *Loader) rename(kind base.FileKind) ([]*version.FileMeta, error) {
	keep := l.tx != nil && l.tx.tables.Shared()
	if l.tx != nil && !keep {
		l.tx.tables.Release()
	}
	return l.c.rename(l.run.take(), kind, keep)
}

// adopt commits the load as tables made elsewhere.
func (l *Loader) adopt(info *report.LoadInfo) (err error) {
	if l.tx != nil { // an iterator may need the present names
		if l.run.out.Files, err = l.rename(base.FileTemp); err != nil {
			return errors.Wrap(err, "sievedb: load")
		}
	}
	got, err := l.c.adopt(l.run.take())
	info.Tables, info.Bytes = got.Tables, got.BytesCopied+got.BytesRewritten
	return err
}
