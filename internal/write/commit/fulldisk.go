package commit

import (
	"github.com/sievedb/sievedb/internal/base"
)

// A full disk ends a log as any failure does, but it does not end writes. Nothing is appended
// after a record that may be cut short, and no sync is repeated. The memtable has all
// acknowledged writes: it is flushed, and once the MANIFEST says that the old log is not
// needed, a new log replaces it. Until there is space for that, each write fails with
// base.ErrNoSpace and tries again.

// logFailed records that a write or sync of the log failed, and returns err. Only the leader calls it.
func (c *Committer) logFailed(err error) error {
	if !base.IsNoSpace(err) {
		c.Fail(err)
		return err
	}
	c.log.full = base.NoSpace(err)
	c.o.Dir.Logger.Error("the disk is full; writes fail until there is space", "err", c.log.full)
	c.o.DiskFull(c.log.full)
	return err
}

// replaceLog makes a log that a full disk ended unnecessary and continues with another one.
// Until it succeeds no write may be accepted: the old log may end in the middle of a record,
// or lack unsynced records, and a record in a newer log would come after a hole. Only the
// leader calls it.
//
// If writes have ended while it waited for the last flush, the write that needs the log may still
// succeed, as any that had begun: it is in a log with no hole before it, and Shut waits for it.
func (c *Committer) replaceLog() error {
	l := &c.log
	if !l.replaced {
		if err := c.waitForMemtables(); err != nil {
			return err
		}
		if c.changes != nil {
			if err := c.changes.KeepFailed(l.logged, l.lastSeq); err != nil {
				return err
			}
		}
		next, err := c.takeSuccessor(0)
		if err != nil {
			return err
		}
		_ = l.w.Close() // it failed before, and its content is in the memtable
		c.switchLog(next, false)
		l.replaced = true
	}
	if err := c.waitForMemtables(); err != nil {
		return err
	}
	l.full, l.replaced = nil, false
	c.synced.Store(l.lastSeq)
	l.logged = l.lastSeq // the MANIFEST has that number now, and a preamble must not be below it
	c.wakeReaders()
	c.o.Dir.Logger.Info("there is space again; writes continue")
	return nil
}
