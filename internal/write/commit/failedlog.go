package commit

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
)

// A failed write or sync ends a log: nothing is appended after a record that may be cut short, and no sync is repeated.
// The memtables have all acknowledged writes. They are flushed, and once the MANIFEST says that the old log is not
// needed, a new log replaces it. So the old one is never replayed, and what its failed records have stays invisible.
//
// On a full disk, each write fails with base.ErrNoSpace and tries this again, until there is space. After another
// failure writes end until Rotate is called, because the disk may be failing: the user decides whether to go on.

// logFailed records that a write or sync of the log failed, and returns err. Only the leader calls it.
func (c *Committer) logFailed(err error) error {
	if c.log.failed != nil {
		return err
	}
	if c.log.failed = base.NoSpace(err); base.IsNoSpace(err) {
		c.o.Dir.Logger.Error("the disk is full; writes fail until there is space", "err", c.log.failed)
	} else {
		c.logEnded.Store(&Ended{Cause: err, log: true})
		c.o.Dir.Logger.Error("writes ended, because the log failed; Flush lets them go on", "err", err)
	}
	c.o.LogFailed(c.log.failed)
	return err
}

// noteLog remembers which file the log is. Only the leader calls it.
func (c *Committer) noteLog() {
	own := manifest.NewOwnFile(c.o.Dir.FS, c.o.Dir.File(base.FileLog, c.log.num))
	c.ownLog.Store(&own)
}

// Verify ends the writes if the files of the store were taken away.
func (c *Committer) Verify() {
	if c.Failure() != nil {
		return
	}
	if err := c.store.Set.Verify(); manifest.IsGone(err) {
		c.Fail(err)
		return
	}
	c.verifyLog()
}

// verifyLog ends the log if another program has taken its file away. It does not wait for a writer otherwise.
func (c *Committer) verifyLog() {
	own := c.ownLog.Load()
	if own.Verify(0) == nil {
		return
	}
	_ = c.run(&request{alone: func() error {
		err := own.Verify(0)
		if err == nil || c.refusal() != nil || c.ownLog.Load() != own { // a flush has removed that log
			return nil
		}
		return c.logFailed(errors.Wrap(err, "sievedb: the log is gone"))
	}})
}

// KeepFailed records, durably, for readers of the history, which records of the log have failed, before the store can do
// without it. Only the leader calls it, or the end of the store.
func (c *Committer) KeepFailed() error {
	if c.store.Changes == nil {
		return nil
	}
	return c.store.Changes.KeepFailed(c.log.logged, c.log.lastSeq)
}

// replaceLog makes a log that has failed unnecessary and continues with another one. Until it succeeds no write may be
// accepted: the old log may end in the middle of a record, or lack unsynced records, and a record in a newer log would
// come after a hole. Only the leader calls it.
//
// If writes have ended while it waited for the last flush, the write that needs the log may still
// succeed, as any that had begun: it is in a log with no hole before it, and Shut waits for it.
func (c *Committer) replaceLog() error {
	l := &c.log
	if !l.replaced {
		if err := c.waitForMemtables(); err != nil {
			return err
		}
		if err := c.KeepFailed(); err != nil {
			return err
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
	c.o.Dir.Logger.Info("another log replaces the failed one; writes continue", "failure", l.failed)
	l.failed, l.replaced = nil, false
	l.logged = l.lastSeq // the MANIFEST has that number now, and a preamble must not be below it
	c.LogSaved()
	return nil
}
