package db

import (
	"sync"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/compact"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/wal"
	"github.com/sievedb/sievedb/memtable"
)

// makeRoom makes sure that the memtable can take memSize bytes of entries,
// slowing the writer down where compaction lags behind. Only the leader runs it.
func (d *DB) makeRoom(memSize uint64, recordBytes int) error {
	mem := d.state.Load().mem
	if uint64(mem.Available()) >= memSize {
		if err := d.writeErr(); err != nil {
			return err
		}
		d.throttle.slow(d, recordBytes)
		if d.log.next == nil && mem.Available() < mem.Capacity()/successorShare {
			d.prepareSuccessor()
		}
		return nil
	}
	return d.rotateMemtable(memSize)
}

// flushActive leaves nothing in the active memtable. Only the leader runs it.
func (d *DB) flushActive() error { return d.rotateMemtable(0) }

// rotateMemtable makes the memtable immutable, for the background to flush, and
// starts a new one, with a new log, that has room for at least memSize bytes.
// Only the leader runs it.
func (d *DB) rotateMemtable(memSize uint64) error {
	if err := d.waitForFlush(); err != nil {
		return err
	}
	if mem := d.state.Load().mem; mem.Len() == 0 {
		if memSize == 0 {
			return nil
		}
		if d.log.w.Size() == 0 {
			d.enlargeMemtable(mem.logNum, memSize)
			return nil
		}
	}
	next, err := d.takeSuccessor(memSize)
	if err != nil {
		return err // the old log is whole and goes on; this write alone has failed
	}
	// The old log must be durable before anything in the new one is: a power cut
	// would otherwise leave a hole in the history (LevelDB issues 193 and 1081).
	if d.log.w.Unsynced() > 0 {
		if err := d.log.w.Sync(); err != nil {
			return d.rotationFailed(next, errors.Wrap(err, "sievedb: syncing the full log"))
		}
		d.counters.logSyncs.Add(1)
	}
	if err := d.log.w.Close(); err != nil {
		return d.rotationFailed(next, errors.Wrap(err, "sievedb: closing the full log"))
	}
	d.switchLog(next, memSize > 0)
	return nil
}

// enlargeMemtable replaces the active memtable, in which and in whose log nothing is, by one
// that has room for memSize bytes. A rotation would flush nothing, and create a log for it.
func (d *DB) enlargeMemtable(logNum, memSize uint64) {
	d.log.inserter.Reset()
	larger := d.newMemBuffer(logNum, memSize)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installLocked(func(s *readState) {
		s.mem.Settle()
		s.mem = larger
	})
}

// rotationFailed gives up the new log, since the old one has failed.
func (d *DB) rotationFailed(next *successor, err error) error {
	d.logFailed(err)
	next.mem.Settle()
	err = errors.CombineErrors(err, next.w.Close())
	d.files.Remove(d.files.File(base.FileLog, next.num))
	return err
}

// switchLog goes on with next, and makes the memtable immutable with the old log.
func (d *DB) switchLog(next *successor, full bool) {
	d.log.w = next.w
	d.log.inserter.Reset() // it would keep the old memtable in memory
	if full {
		d.compactor.NoteFull()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installLocked(func(s *readState) {
		s.mem.maxSeq = d.log.lastSeq
		s.imm = append([]*memBuffer{s.mem}, s.imm...)
		s.mem = next.mem
	})
}

func (d *DB) newMemBuffer(logNum, memSize uint64) *memBuffer {
	capacity := max(uint64(memtable.ArenaSize(d.opts.WriteBufferSize)), memSize+memtable.Slack)
	return &memBuffer{Memtable: memtable.New(d.cmp, int(capacity)), logNum: logNum}
}

// createLog creates a log file and makes its name durable, so that a synced
// write in it is found after a power loss.
func (d *DB) createLog(num uint64) (*wal.Writer, error) {
	path := d.files.File(base.FileLog, num)
	f, err := d.fs.Create(path)
	if err != nil {
		return nil, err
	}
	if err := d.fs.SyncDir(d.dir); err != nil {
		return nil, errors.CombineErrors(errors.CombineErrors(err, f.Close()), d.fs.Remove(path))
	}
	return wal.NewWriter(f), nil
}

// flushLoop writes immutable memtables as tables, oldest first, until the store
// closes. What is left then is in the logs. The log of a memtable is removed beside the
// flush of the next one, if that waits: to free 16 MiB of a disk takes 6 ms and more.
func (d *DB) flushLoop() {
	defer d.background.Done()
	_ = d.guard("a flush", func() error { d.flushAll(); return nil })
}

// flushAll is the work of flushLoop.
func (d *DB) flushAll() {
	var removal sync.WaitGroup // of one log at most
	defer removal.Wait()
	backoff := compact.Backoff{}
	defer d.compactor.EndFlush()
	for {
		d.compactor.EndFlush() // with what came after the last one
		mem, next := d.nextToFlush()
		if mem == nil {
			return
		}
		size, log := mem.Capacity(), d.files.File(base.FileLog, mem.logNum)
		d.compactor.BeginFlush()
		err := d.flushMemtable(mem, next)
		d.noteFlush(err)
		if err == nil {
			backoff = compact.Backoff{}
			removal.Wait()
			removal.Go(func() {
				_ = d.guard("the removal of a log", func() error { d.files.Remove(log); return nil })
			})
			if len(d.state.Load().imm) == 0 {
				removal.Wait() // whoever finds no flush under way finds no log too many
			}
			collectFlushed(size)
			continue
		}
		if d.writeErr() != nil || !d.pause(backoff.Next(err)) {
			return
		}
	}
}

// nextToFlush waits for an immutable memtable and returns the oldest, and the
// number of the log that is the oldest needed once it is flushed. Nil when the
// store closes.
func (d *DB) nextToFlush() (*memBuffer, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.closed.Load() || d.writeErr() != nil {
			return nil, 0
		}
		s := d.state.Load()
		if n := len(s.imm); n > 0 {
			next := s.mem.logNum
			if n > 1 {
				next = s.imm[n-2].logNum
			}
			return s.imm[n-1], next
		}
		d.cond.Wait()
	}
}

// flushMemtable writes mem to a table of level 0 and records that. Then mem's log is not
// needed any more.
func (d *DB) flushMemtable(mem *memBuffer, nextLog uint64) error {
	start := time.Now()
	edit := &manifest.Edit{
		LogNum: manifest.Num(nextLog),
		// Not the newest sequence number given out: goleveldb drops records of the
		// live log that are numbered below what an edit says.
		LastSeq: manifest.Num(mem.maxSeq),
	}
	info := FlushInfo{}
	file, err := d.writeMemtable(mem.Memtable)
	if err == nil && file != nil {
		edit.Added = []manifest.LevelFile{{Level: 0, File: file}}
		info.FileNum, info.Bytes, info.Entries = file.Num, file.Size, uint64(mem.Len())
	}
	if err == nil {
		var written []*manifest.FileMeta
		if file != nil {
			written = append(written, file)
		}
		// In a new slice: the old one's array would keep the memtable in memory.
		took := time.Since(start)
		err = d.applyEdit(edit, written, func(s *readState) {
			d.throttle.noteFlush(mem.Memtable, took)
			s.imm = append([]*memBuffer(nil), s.imm[:len(s.imm)-1]...)
			d.flushErr = nil // whoever finds room from here on is not told why there was none
		})
	}
	info.Duration, info.Err = time.Since(start), err
	tell(d, d.opts.EventListener.FlushEnd, info)
	if err != nil {
		return errors.Wrap(err, "sievedb: flushing a memtable")
	}
	d.counters.flushes.Add(1)
	d.counters.flushBytes.Add(info.Bytes)
	d.opts.Logger.Info("flushed", "table", info.FileNum, "bytes", info.Bytes, "entries", info.Entries, "took", info.Duration)
	d.obsolete.Remove()
	d.compactor.Schedule()
	return nil
}

// applyEdit records edit in the MANIFEST and installs the version that it leads
// to. A MANIFEST that cannot be written ends the writes, unless the disk is full:
// then a new one is begun by the next edit. written are the tables that were
// written for this edit; after an error nobody needs them, and they are removed
// as soon as it is certain that the edit is not in force.
func (d *DB) applyEdit(edit *manifest.Edit, written []*manifest.FileMeta, also func(*readState)) error {
	// Taken before: of an edit that fails behind this one nothing is certain yet.
	settled := d.takeUncertain()
	err := d.set.Apply(edit, d.installVersion(also))
	if err == nil {
		d.removeTables(settled)
		return nil
	}
	if d.set.Failed() {
		d.endWrites(err)
	}
	if manifest.IsUncertain(err) {
		settled = append(settled, written...)
	} else {
		d.removeTables(written)
	}
	d.mu.Lock()
	d.uncertain = append(d.uncertain, settled...)
	d.mu.Unlock()
	return err
}

// takeUncertain returns the tables of failed edits that may be in force, and forgets them:
// once a later edit is in force, nobody needs them.
func (d *DB) takeUncertain() []*manifest.FileMeta {
	d.mu.Lock()
	defer d.mu.Unlock()
	tables := d.uncertain
	d.uncertain = nil
	return tables
}

func (d *DB) removeTables(tables []*manifest.FileMeta) {
	for _, f := range tables {
		d.files.Remove(d.files.File(base.FileTable, f.Num))
	}
}

// writeMemtable writes the entries of mem as a table, synced, with its directory
// entry durable. Nil where mem is empty. After an error no file is left.
func (d *DB) writeMemtable(mem *memtable.Memtable) (*manifest.FileMeta, error) {
	mem.Settle()
	if mem.Len() == 0 {
		return nil, nil
	}
	out := d.newTableWriter(d.plan.FlushBits(mem.Len()))
	for ikey, value := range mem.All() {
		if err := out.Add(ikey, value); err != nil {
			out.Abandon()
			return nil, err
		}
	}
	files, err := out.Finish()
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// noteFlush keeps the outcome of a flush, for Metrics and for those who wait on it.
func (d *DB) noteFlush(err error) {
	err = base.NoSpace(err)
	d.mu.Lock()
	d.flushErr = err
	d.cond.Broadcast()
	d.mu.Unlock()
	d.reportBackground(err)
}

// reportBackground logs the failure of background work, if err is one, and notifies the
// listener.
func (d *DB) reportBackground(err error) {
	if err != nil {
		d.opts.Logger.Error("background work failed", "err", err)
		tell(d, d.opts.EventListener.BackgroundError, err)
	}
}

// pause waits and reports whether the store is still open then.
func (d *DB) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.closing:
		return false
	}
}
