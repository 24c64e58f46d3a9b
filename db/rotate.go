package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/memtable"
)

// makeRoom makes sure that the memtable has room for memSize bytes of entries. It slows the
// writer down if compaction falls back. Only the leader runs it.
func (d *DB) makeRoom(memSize uint64, recordBytes int) error {
	mem := d.state().Mem
	if uint64(mem.Available()) >= memSize {
		if err := d.writeErr(); err != nil {
			return err
		}
		d.throttle.Slow(recordBytes)
		if d.log.next == nil && mem.Available() < mem.Capacity()/successorShare {
			d.prepareSuccessor()
		}
		return nil
	}
	return d.rotateMemtable(memSize)
}

// flushActive makes the active memtable immutable if it has entries. Only the leader runs it.
func (d *DB) flushActive() error { return d.rotateMemtable(0) }

// rotateMemtable makes the memtable immutable, for the background to flush, and starts a new
// one with a new log and room for at least memSize bytes. Only the leader runs it.
func (d *DB) rotateMemtable(memSize uint64) error {
	if err := d.waitForFlush(); err != nil {
		return err
	}
	if mem := d.state().Mem; mem.Len() == 0 {
		if memSize == 0 {
			return nil
		}
		if d.log.w.Size() == 0 {
			d.enlargeMemtable(mem.LogNum, memSize)
			return nil
		}
	}
	next, err := d.takeSuccessor(memSize)
	if err != nil {
		return err // the old log is complete and stays in use; only this write has failed
	}
	// The old log must be durable before anything in the new one is: a power cut
	// would otherwise leave a hole in the history (LevelDB issues 193 and 1081).
	if d.log.w.Unsynced() > 0 {
		if err := d.fsyncLog(); err != nil {
			return d.rotationFailed(next, errors.Wrap(err, "sievedb: syncing the full log"))
		}
	}
	if err := d.log.w.Close(); err != nil {
		return d.rotationFailed(next, errors.Wrap(err, "sievedb: closing the full log"))
	}
	d.switchLog(next, memSize > 0)
	return nil
}

// enlargeMemtable replaces the active memtable, which is empty, as is its log, by one with room
// for memSize bytes. A rotation would flush nothing and create a log for it.
func (d *DB) enlargeMemtable(logNum, memSize uint64) {
	d.log.inserter.Reset()
	larger := d.newMemBuffer(logNum, memSize)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installLocked(func(s *lookup.State) {
		s.Mem.Free()
		s.Mem = larger
	})
}

// rotationFailed discards the new log, because the old one has failed.
func (d *DB) rotationFailed(next *successor, err error) error {
	d.logFailed(err)
	next.mem.Free()
	err = errors.CombineErrors(err, next.w.Close())
	d.files.Remove(d.files.File(base.FileLog, next.num))
	return err
}

// switchLog continues with next, and makes the memtable immutable with the old log.
func (d *DB) switchLog(next *successor, full bool) {
	if d.changes != nil {
		d.changes.SwitchLog(d.log.logged, d.log.lastSeq, next.num)
	}
	d.log.w = next.w
	d.log.inserter.Reset() // it would keep the old memtable in memory
	if full {
		d.compactor.NoteFull()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installLocked(func(s *lookup.State) {
		s.Mem.MaxSeq = d.log.lastSeq
		s.Mem.Grant.Retire()
		s.Imm = s.Memtables()
		s.Mem = next.mem
	})
}

func (d *DB) newMemBuffer(logNum, memSize uint64) *lookup.Memtable {
	mem, grant := d.share.Memory().NewMemtable(d.cmp, d.options().Memtables.Size, memSize+memtable.Slack, d.state() == nil)
	return &lookup.Memtable{Memtable: mem, LogNum: logNum, Grant: grant}
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
