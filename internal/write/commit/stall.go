package commit

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// throttle returns when writers are slowed.
func (l *Limits) throttle() throttle.Limits {
	return throttle.Limits{L0SlowdownTrigger: l.L0Slowdown, L0StopTrigger: l.L0Stop, MaxMemtables: l.MaxMemtables}
}

// updateThrottle limits writers, if there are any, as the state requires. mu is held, or no write has begun yet.
func (c *Committer) updateThrottle(s *lookup.State) {
	if c.store.GarbageLoad == nil {
		return
	}
	c.throttle.Update(len(s.Version.Levels[0].Files), len(s.Imm), c.store.GarbageLoad(s.Version))
}

// IgnoreLevel0 makes writers not wait for room in level 0 until end is called: what the caller is about to do may keep
// the compaction that would make it from running, and waits for the writers.
func (c *Committer) IgnoreLevel0() (end func()) {
	c.crowded.Add(1)
	c.Wake()
	return func() { c.crowded.Add(-1) }
}

// FlushInPause makes a flush not wait for room in level 0 until end is called, if compactions are paused or the disk
// has no space for them: only they would make it.
func (c *Committer) FlushInPause() (end func()) {
	c.inPause.Add(1)
	c.Wake() // a writer may wait already, as the leader
	return func() { c.inPause.Add(-1) }
}

// Pause waits, and reports whether the store may still write afterwards.
func (c *Committer) Pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ending:
		return false
	}
}

// waitForRoom waits while writers may not start another memtable. Only the leader calls it.
func (c *Committer) waitForRoom() error {
	var began time.Time
	reason, err := "", error(nil)
	c.awaitSuccessor()
	c.mu.Lock()
	for {
		if err = c.refusal(); err != nil {
			break
		}
		now, cause := c.stallReasonLocked()
		if now == "" {
			break
		}
		if cause != nil {
			// The flush that would make room fails: the writer gets its error instead of hanging. The flush is tried
			// again in the background; once it succeeds, writes continue.
			err = errors.Wrapf(cause, "sievedb: no room for the write (%s)", now)
			break
		}
		if reason == "" {
			began, reason = time.Now(), now
		}
		c.stallReason = now
		c.cond.Wait()
	}
	c.stallReason = ""
	c.mu.Unlock()
	if err == nil && reason != "" {
		c.throttle.Record(reason, true, time.Since(began))
	}
	return err
}

// stalled reports whether a new memtable would have to wait. Only the leader calls it.
func (c *Committer) stalled() bool {
	c.awaitSuccessor()
	c.mu.Lock()
	defer c.mu.Unlock()
	reason, _ := c.stallReasonLocked()
	return reason != ""
}

// stallReasonLocked says why no memtable may be started now, "" if one may, and returns the
// failure that causes it, if any. Only the leader calls it.
func (c *Committer) stallReasonLocked() (reason string, cause error) {
	s, l := c.state(), c.limits.Load()
	switch {
	case len(s.Imm) >= l.MaxMemtables:
		return throttle.StopMemtables, c.flushErr
	case c.lacksMemory(s):
		return throttle.StopMemory, c.flushErr
	case len(s.Version.Levels[0].Files) >= l.L0Stop && c.crowded.Load() == 0:
		if !c.store.Paused() {
			// What frees space does not wait for compactions that have none.
			if cause = c.store.Stuck(s.Version); base.IsNoSpace(cause) && c.inPause.Load() > 0 {
				return "", nil
			}
			return throttle.StopLevel0, cause
		}
		if c.inPause.Load() == 0 {
			return throttle.StopPaused, nil
		}
	}
	return "", nil
}
