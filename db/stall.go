package db

import (
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// newThrottle returns the throttle of the store's writers.
func (d *DB) newThrottle() *throttle.Throttle {
	return throttle.New(throttle.Options{
		Limits: d.opts.throttleLimits(),
		Pause:  func(wait time.Duration) { d.pause(wait) },
		Stalled: func(reason string, stopped bool, took time.Duration) {
			notify(d, d.opts.EventListener.WriteStall, WriteStallInfo{Reason: reason, Stopped: stopped, Duration: took})
		},
	})
}

// throttleLimits returns when writers are slowed. o has all defaults filled in.
func (o *Options) throttleLimits() throttle.Limits {
	return throttle.Limits{
		L0SlowdownTrigger: o.Compaction.L0Slowdown, L0StopTrigger: o.Compaction.L0Stop, MaxMemtables: o.Memtables.MaxWaiting,
	}
}

// stallMetrics fills in the stalls of m, except for the reason of a stop.
func (d *DB) stallMetrics(m *Metrics) {
	m.Stalls.CurrentReason = d.throttle.Now()
	for reason, total := range d.throttle.Waits() {
		if m.Stalls.ByReason == nil {
			m.Stalls.ByReason = make(map[string]StallTotal)
		}
		m.Stalls.ByReason[reason] = StallTotal(total)
		m.Stalls.Count += total.Count
		m.Stalls.Duration += total.Duration
	}
}

// throttleFor limits writers as the state requires. d.mu is held, or d is not open yet.
func (d *DB) throttleFor(s *lookup.State) {
	d.throttle.Update(len(s.Version.Levels[0].Files), len(s.Imm))
}

// waitForFlush waits while writers may not start another memtable.
func (d *DB) waitForFlush() error {
	var began time.Time
	var reason string
	d.awaitSuccessor()
	d.mu.Lock()
	for {
		if d.closed.Load() {
			d.mu.Unlock()
			return ErrClosed
		}
		if err := d.writeErr(); err != nil {
			d.mu.Unlock()
			return err
		}
		now, cause := d.stallReasonLocked()
		if now == "" {
			break
		}
		if cause != nil {
			// The flush that would make room fails: the writer gets its error instead of
			// hanging. The flush is tried again in the background; once it succeeds, writes
			// continue.
			defer d.mu.Unlock()
			d.stallReason = ""
			return errors.Wrapf(cause, "sievedb: no room for the write (%s)", now)
		}
		if reason == "" {
			began, reason = time.Now(), now
		}
		d.stallReason = now
		d.cond.Wait()
	}
	d.stallReason = ""
	d.mu.Unlock()
	if reason != "" {
		d.throttle.Record(reason, true, time.Since(began))
	}
	return nil
}

// stalled reports whether a new memtable would have to wait. Only the leader calls it.
func (d *DB) stalled() bool {
	d.awaitSuccessor()
	d.mu.Lock()
	defer d.mu.Unlock()
	reason, _ := d.stallReasonLocked()
	return reason != ""
}

// stallReasonLocked says why no memtable may be started now, "" if one may, and returns the
// failure that causes it, if any. Only the leader calls it.
func (d *DB) stallReasonLocked() (reason string, cause error) {
	s, o := d.state(), d.options()
	switch {
	case len(s.Imm) >= o.Memtables.MaxWaiting:
		return throttle.StopMemtables, d.flushErr
	case d.lacksMemory(s):
		return throttle.StopMemory, d.flushErr
	case len(s.Version.Levels[0].Files) >= o.Compaction.L0Stop && !d.crowded.Load():
		if !d.compactor.Paused() {
			// What frees space does not wait for compactions that have none.
			if cause = d.compactor.Stuck(s.Version); base.IsNoSpace(cause) && d.flushCallers.Load() > 0 {
				return "", nil
			}
			return throttle.StopLevel0, cause
		}
		if d.flushCallers.Load() == 0 {
			return throttle.StopPaused, nil
		}
	}
	return "", nil
}
