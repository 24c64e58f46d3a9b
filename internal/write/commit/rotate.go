package commit

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/vfs"
)

// rotate makes the memtable immutable, for the background to flush, and starts a new one with a new log and room for at
// least memSize bytes. With 0 it does nothing if the memtable is empty. Only the leader calls it.
func (c *Committer) rotate(memSize uint64) error {
	if err := c.waitForRoom(); err != nil {
		return err
	}
	if mem := c.state().Mem; mem.Len() == 0 {
		if memSize == 0 {
			return nil
		}
		if c.log.w.Size() == 0 {
			c.enlargeMemtable(mem.LogNum, memSize)
			return nil
		}
	}
	next, err := c.takeSuccessor(memSize)
	if err != nil {
		return err // the old log is complete and stays in use; only this write has failed
	}
	// The old log must be durable before anything in the new one is: a power cut
	// would otherwise leave a hole in the history (LevelDB issues 193 and 1081).
	if err := c.finishLog(); err != nil {
		return c.rotationFailed(next, errors.Wrap(err, "sievedb: syncing the full log"))
	}
	if err := c.log.w.Close(); err != nil {
		return c.rotationFailed(next, errors.Wrap(err, "sievedb: closing the full log"))
	}
	c.switchLog(next, memSize > 0)
	return nil
}

// enlargeMemtable replaces the active memtable, which is empty, as is its log, by one with room
// for memSize bytes. A rotation would flush nothing and create a log for it.
func (c *Committer) enlargeMemtable(logNum, memSize uint64) {
	c.log.inserter.Reset()
	larger := c.newMemtable(logNum, memSize)
	larger.Follow(c.state().Mem)
	c.Install(func(s *lookup.State) {
		s.Mem.Free()
		s.Mem = larger
	})
}

// rotationFailed discards the new log, because the old one has failed.
func (c *Committer) rotationFailed(next *successor, err error) error {
	err = c.logFailed(err)
	next.mem.Free()
	err = errors.CombineErrors(err, next.w.Close())
	c.o.Dir.Remove(c.o.Dir.File(base.FileLog, next.num))
	return err
}

// switchLog continues with next, and makes the memtable, which may be full, immutable with the old log. Only the leader
// calls it.
func (c *Committer) switchLog(next *successor, full bool) {
	if c.store.Changes != nil {
		c.store.Changes.SwitchLog(c.log.logged, c.log.lastSeq, next.num)
	}
	c.log.w, c.log.num = next.w, next.num
	c.noteLog()
	c.log.inserter.Reset() // it would keep the old memtable in memory
	if full {
		c.store.Full() // before a flush of it can end
	}
	next.mem.Follow(c.state().Mem)
	c.Install(func(s *lookup.State) {
		s.Mem.MaxSeq = c.log.lastSeq
		s.Mem.Grant.Retire()
		s.Imm = s.Memtables()
		s.Mem = next.mem
	})
}

// newMemtable returns a memtable for the log with number logNum, with room for memSize bytes of entries.
func (c *Committer) newMemtable(logNum, memSize uint64) *lookup.Memtable {
	mem, grant := c.o.Memory.NewMemtable(c.o.Cmp, c.limits.Load().MemtableSize, memSize+memtable.Slack, c.state() == nil)
	return &lookup.Memtable{Memtable: mem, LogNum: logNum, Grant: grant}
}

// CreateLog creates a log file and makes its name durable, so that a synced write in it is found after a power loss.
func (c *Committer) CreateLog(num uint64) (*wal.Writer, error) {
	dir := &c.o.Dir
	path := dir.File(base.FileLog, num)
	f, err := vfs.CreateLog(dir.FS, path)
	if err != nil {
		return nil, err
	}
	if err := dir.FS.SyncDir(dir.Path); err != nil {
		return nil, errors.CombineErrors(errors.CombineErrors(err, f.Close()), dir.FS.Remove(path))
	}
	return wal.NewWriter(f), nil
}
