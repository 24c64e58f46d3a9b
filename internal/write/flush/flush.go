package flush

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/report"
)

// Options are what a Flusher needs of its store: parts of it, and functions.
type Options struct {
	Cmp       *base.Comparer
	Dir       tables.Directory
	Set       *manifest.Set
	Obsolete  *tables.Obsolete
	Current   *lookup.Current
	Commit    *commit.Committer
	Compactor *compact.Scheduler

	// Write writes the entries of a memtable as tables and adds these to edit. After an error no file is left.
	Write func(mem *memtable.Memtable, edit *manifest.Edit) ([]*version.FileMeta, error)
	// RetireLog is called with the number of a log that is not needed any more.
	RetireLog func(num uint64)
	// Ended gets the result of each attempt to flush a memtable, and Failed an error that no call returns.
	Ended  func(report.FlushInfo)
	Failed func(error)
	// Flushed is called after each flush, with the memory that the memtable had.
	Flushed func(capacity int)
}

// Flusher flushes the memtables of one store.
type Flusher struct {
	Options
	count, bytes atomic.Uint64
}

// New returns a Flusher, which does nothing by itself before Run is called.
func New(o Options) *Flusher { return &Flusher{Options: o} }

// Totals returns the number of flushes, and of bytes that they wrote.
func (f *Flusher) Totals() (count, bytes uint64) { return f.count.Load(), f.bytes.Load() }

// Flush writes the memtables to tables and returns when that is done. If the log has failed, writes go on in a new one.
func (f *Flusher) Flush() error {
	c := f.Commit
	c.Verify()
	waiting, err := c.Rotate()
	if err != nil {
		return err
	}
	err = c.WaitFlushed(waiting)
	f.Compactor.EndBurst() // not before: what the burst delayed should find all tables
	f.Compactor.Schedule()
	return err
}

// FlushInPause is Flush for a caller whom a pause of compactions does not stop. It does not wait for room in level 0,
// which only a paused compaction would make.
func (f *Flusher) FlushInPause() error {
	defer f.Commit.FlushInPause()()
	return f.Flush()
}

// FlushForChange is FlushInPause for a load, an ingest or a deletion. Only a Flush of the user lets writes go on after a
// failure of the log.
func (f *Flusher) FlushForChange() error {
	if err := f.Commit.Err(); err != nil {
		return err
	}
	return f.FlushInPause()
}

// Run writes immutable memtables as tables, oldest first, until the store closes. The
// logs contain the remaining ones. The log of a memtable is removed during the flush of the
// next one, if one waits: freeing 16 MiB of a disk takes 6 ms and more.
func (f *Flusher) Run() {
	_ = f.Commit.Guard("a flush", func() error { f.flushAll(); return nil })
}

// flushAll is the work of Run.
func (f *Flusher) flushAll() {
	c := f.Commit
	var removal sync.WaitGroup // of one log at most
	defer removal.Wait()
	backoff := compact.Backoff{}
	defer f.Compactor.EndFlush()
	for {
		f.Compactor.EndFlush() // with what came after the last one
		mem, next := c.NextToFlush()
		if mem == nil {
			return
		}
		capacity, log := mem.Capacity(), mem.LogNum
		f.Compactor.BeginFlush()
		err := f.flush(mem, next)
		c.EndFlush(err)
		if err != nil {
			f.Failed(base.NoSpace(err))
			if !c.Pause(backoff.Next(err)) {
				return
			}
			continue
		}
		backoff = compact.Backoff{}
		removal.Wait()
		base.GoIn(&removal, func() {
			_ = c.Guard("the removal of a log", func() error { f.RetireLog(log); return nil })
		})
		if len(f.Current.State.Load().Imm) == 0 {
			removal.Wait() // so that a caller that waited for all flushes finds no unneeded log
		}
		f.Flushed(capacity)
	}
}

// flush writes mem to a table of level 0 and records that. mem's log is not needed afterwards.
func (f *Flusher) flush(mem *lookup.Memtable, nextLog uint64) error {
	start := time.Now()
	edit := &manifest.Edit{
		LogNum: manifest.Num(nextLog),
		// Not the newest sequence number assigned: goleveldb drops records of the live log
		// whose numbers are below that of an edit.
		LastSeq: manifest.Num(mem.MaxSeq),
	}
	info := report.FlushInfo{}
	written, err := f.Write(mem.Memtable, edit)
	for i, t := range written {
		if i == 0 {
			info.FileNum, info.Entries = t.Num, uint64(mem.Len())
		}
		info.Bytes += t.Size
	}
	if err == nil {
		if len(edit.Added) > 0 && mem.Gain != nil {
			edit.Added[0].File.SetGain(mem.Gain)
		}
		took := time.Since(start)
		err = f.Commit.ApplyEdit(edit, written, func(s *lookup.State) { f.Commit.Retire(s, took) })
	}
	info.Duration, info.Err = time.Since(start), err
	f.Ended(info)
	if err != nil {
		return errors.Wrap(err, "sievedb: flushing a memtable")
	}
	f.count.Add(1)
	f.bytes.Add(info.Bytes)
	f.Dir.Logger.Info("flushed", "table", info.FileNum, "bytes", info.Bytes, "entries", info.Entries, "took", info.Duration)
	f.Obsolete.Remove()
	if mem.Hinders {
		f.Compactor.Relieve()
	}
	f.Compactor.Schedule()
	return nil
}
