package db

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
)

// throttle slows writers down as compaction falls behind, a little at first, so
// that they do not run into a wall: between the slowdown and the stop trigger
// the rate granted falls exponentially from startRate to endRate.
type throttle struct {
	nanosPerByte atomic.Uint64 // as math.Float64bits; 0: no limit
	owed         time.Duration // the leader's: slept off in portions worth a timer
	stalls       atomic.Uint64
	stallNanos   atomic.Int64
}

const (
	throttleStartRate = 64 << 20 // bytes a second
	throttleEndRate   = 1 << 20
	throttlePortion   = time.Millisecond
	throttleLongest   = 50 * time.Millisecond // of one wait
)

// update sets the rate for a new state. d.mu is held.
func (t *throttle) update(d *DB, s *readState) {
	n, slow, stop := len(s.version.Levels[0].Files), d.opts.L0SlowdownTrigger, d.opts.L0StopTrigger
	if n < slow {
		t.nanosPerByte.Store(0)
		return
	}
	fraction := math.Min(1, float64(n-slow)/float64(stop-slow))
	rate := throttleStartRate * math.Pow(float64(throttleEndRate)/throttleStartRate, fraction)
	t.nanosPerByte.Store(math.Float64bits(1e9 / rate))
}

// slow makes the leader wait for what recordBytes cost at the present rate.
func (t *throttle) slow(d *DB, recordBytes int) {
	bits := t.nanosPerByte.Load()
	if bits == 0 {
		t.owed = 0
		return
	}
	t.owed += time.Duration(math.Float64frombits(bits) * float64(recordBytes))
	if t.owed < throttlePortion {
		return
	}
	start := time.Now()
	d.pause(min(t.owed, throttleLongest))
	took := time.Since(start)
	t.owed = max(0, t.owed-took)
	t.record(d, "level 0 has many tables", false, took)
}

func (t *throttle) record(d *DB, reason string, stopped bool, took time.Duration) {
	t.stalls.Add(1)
	t.stallNanos.Add(int64(took))
	tell(d.opts.EventListener.WriteStall, WriteStallInfo{Reason: reason, Stopped: stopped, Duration: took})
}

// waitForFlush waits while writers may not start another memtable.
func (d *DB) waitForFlush() error {
	var began time.Time
	var reason string
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
			// What would make room fails: the writer is told instead of hanging. It
			// is tried again in the background, and once it succeeds writes go on.
			defer d.mu.Unlock()
			d.stallReason = ""
			return errors.Wrapf(cause, "sievedb: no room for the write (%s)", now)
		}
		if reason == "" {
			began, reason = time.Now(), now
			d.stallReason = now
		}
		d.cond.Wait()
	}
	d.stallReason = ""
	d.mu.Unlock()
	if reason != "" {
		d.throttle.record(d, reason, true, time.Since(began))
	}
	return nil
}

// stallReasonLocked says why no memtable may be started now, "" if one may, and
// the failure, if any, that keeps it so.
func (d *DB) stallReasonLocked() (reason string, cause error) {
	s := d.state.Load()
	switch {
	case len(s.imm) >= d.opts.MaxMemtables:
		return "memtables wait for their flush", d.flushErr
	case len(s.version.Levels[0].Files) >= d.opts.L0StopTrigger:
		return "level 0 is full", d.stuckLocked(s)
	}
	return "", nil
}

// stuckLocked returns what keeps compactions from making room: the last one's
// failure, or the corruption that tables were set aside for, where nothing is
// left to compact beside them.
func (d *DB) stuckLocked(s *readState) error {
	if d.compactionErr == nil && d.parkedErr != nil && d.compactions == 0 && s.version.Pick(d.pickOptions()) == nil {
		return d.parkedErr
	}
	return d.compactionErr
}

func (t *throttle) stallTime() time.Duration { return time.Duration(t.stallNanos.Load()) }
