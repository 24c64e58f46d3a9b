package commit

import (
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// Rotate makes the active memtable immutable if it has entries, and returns the immutable ones. If the log has failed,
// it flushes all memtables, and then writes go on in another log.
func (c *Committer) Rotate() (waiting []*lookup.Memtable, err error) {
	err = c.run(&request{alone: func() error {
		if err := c.refusal(); err != nil {
			return err
		}
		if c.log.failed != nil {
			return c.replaceLog()
		}
		return c.rotate(0)
	}})
	return c.state().Imm, err
}

// WaitFlushed waits until these memtables are tables, or the last attempt at a flush has failed. Later ones are not
// waited for.
func (c *Committer) WaitFlushed(waiting []*lookup.Memtable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		pending := slices.ContainsFunc(c.state().Imm, func(m *lookup.Memtable) bool { return slices.Contains(waiting, m) })
		if !pending {
			return nil
		}
		if err := c.refusal(); err != nil {
			return err
		}
		if c.flushErr != nil {
			return c.flushErr
		}
		c.cond.Wait()
	}
}

// waitForMemtables waits until every immutable memtable is in a table, or the
// last attempt at that has failed. Only the leader calls it.
func (c *Committer) waitForMemtables() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.state().Imm) > 0 {
		if err := c.refusal(); err != nil {
			return err
		}
		if c.flushErr != nil {
			return errors.Wrap(c.flushErr, "sievedb: a memtable must be flushed before the write, and its flush fails")
		}
		c.cond.Wait()
	}
	return nil
}

// NextToFlush waits for an immutable memtable. It returns the oldest one, and the number of the oldest log that is
// needed after its flush. It returns nil when writes have ended. Only one goroutine calls it, and then Retire in the
// edit of the flush, if that succeeds, and EndFlush.
func (c *Committer) NextToFlush() (mem *lookup.Memtable, nextLog uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.refusal() != nil {
			return nil, 0
		}
		s := c.state()
		if n := len(s.Imm); n > 0 {
			next := s.Mem.LogNum
			if n > 1 {
				next = s.Imm[n-2].LogNum
			}
			return s.Imm[n-1], next
		}
		c.cond.Wait()
	}
}

// Retire removes the memtable that NextToFlush returned from s, whose version has its table, after a flush that took
// that long. Only the function that Install calls may call it.
func (c *Committer) Retire(s *lookup.State, took time.Duration) {
	last := len(s.Imm) - 1
	mem := s.Imm[last]
	c.throttle.ObserveFlush(mem.Size(), mem.Capacity(), took)
	mem.Grant.Release()
	s.Imm = append([]*lookup.Memtable(nil), s.Imm[:last]...) // the old array would keep the memtable in memory
	c.flushErr = nil                                         // a write that finds room from here on must not return the old error
}

// EndFlush records the result of a flush, for Status and for callers that wait for it.
func (c *Committer) EndFlush(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushErr = base.NoSpace(err)
	c.cond.Broadcast()
}

// ForgetFlushError makes callers wait for the next attempt of a flush, although the last one has failed.
func (c *Committer) ForgetFlushError() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushErr = nil
}
