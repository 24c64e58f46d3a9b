package db

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/memtable"
)

// throttle slows writers down as the background falls behind, a little at first, so
// that they do not run into a wall. There are two walls:
//
//   - level 0. Between the slowdown and the stop trigger the rate granted falls
//     exponentially from startRate to endRate.
//   - memtables that wait for their flush. While the last one that there may be is
//     filled, writes go no faster than flushes: it is full when the next flush is done,
//     which began before it did.
type throttle struct {
	limit     atomic.Pointer[writeLimit] // nil: none
	owed      time.Duration              // the leader's: slept off in portions worth a timer
	flushRate float64                    // arena bytes a second, a running mean; d.mu guards it; 0: not known yet

	waiting atomic.Pointer[writeLimit] // what the leader is slowed for at this moment

	mu     sync.Mutex
	totals map[string]WriteStallTotal // by reason; mu guards it
}

// writeLimit is a rate, and why there is one.
type writeLimit struct {
	nanosPerByte float64
	reason       string
}

// Why writes wait. Those that are slowed have other reasons than those that stop.
const (
	slowLevel0    = "level 0 has many tables"
	slowMemtables = "the last memtable fills"
	stopLevel0    = "level 0 is full"
	stopMemtables = "memtables wait for their flush"
)

const (
	throttleStartRate = 64 << 20 // bytes a second
	throttleEndRate   = 1 << 20
	throttlePortion   = time.Millisecond
	throttleLongest   = 50 * time.Millisecond // of one wait
	// An entry of 16 + 100 bytes takes up to a quarter more of an arena than of a log.
	throttleFlushShare = 0.8
)

// update sets the limit for a new state. d.mu is held.
func (t *throttle) update(d *DB, s *readState) {
	var limit *writeLimit
	grant := func(rate float64, reason string) {
		if nanos := 1e9 / rate; limit == nil || nanos > limit.nanosPerByte {
			limit = &writeLimit{nanos, reason}
		}
	}
	n, slow, stop := len(s.version.Levels[0].Files), d.opts.L0SlowdownTrigger, d.opts.L0StopTrigger
	if n >= slow {
		fraction := math.Min(1, float64(n-slow)/float64(stop-slow))
		grant(throttleStartRate*math.Pow(float64(throttleEndRate)/throttleStartRate, fraction), slowLevel0)
	}
	if len(s.imm) >= d.opts.MaxMemtables && t.flushRate > 0 {
		grant(math.Max(throttleEndRate, throttleFlushShare*t.flushRate), slowMemtables)
	}
	t.limit.Store(limit)
}

// noteFlush hears how long the flush of a memtable took. One that is half empty tells
// of syncs rather than of bytes. d.mu is held.
func (t *throttle) noteFlush(mem *memtable.Memtable, took time.Duration) {
	if mem.Size() < mem.Capacity()/2 {
		return
	}
	rate := float64(mem.Size()) / math.Max(took.Seconds(), 1e-6)
	if t.flushRate > 0 {
		rate = (3*t.flushRate + rate) / 4
	}
	t.flushRate = rate
}

// slow makes the leader wait for what recordBytes cost at the present rate.
func (t *throttle) slow(d *DB, recordBytes int) {
	limit := t.limit.Load()
	if limit == nil {
		t.owed = 0
		return
	}
	t.owed += time.Duration(limit.nanosPerByte * float64(recordBytes))
	if t.owed < throttlePortion {
		return
	}
	start := time.Now()
	t.waiting.Store(limit)
	d.pause(min(t.owed, throttleLongest))
	t.waiting.Store(nil)
	took := time.Since(start)
	t.owed = max(0, t.owed-took)
	t.record(d, limit.reason, false, took)
}

func (t *throttle) record(d *DB, reason string, stopped bool, took time.Duration) {
	t.mu.Lock()
	if t.totals == nil {
		t.totals = make(map[string]WriteStallTotal)
	}
	total := t.totals[reason]
	total.Stalls++
	total.Time += took
	total.Longest = max(total.Longest, took)
	t.totals[reason] = total
	t.mu.Unlock()
	tell(d, d.opts.EventListener.WriteStall, WriteStallInfo{Reason: reason, Stopped: stopped, Duration: took})
}

// addTo fills in what Metrics says of stalls, but for the reason of a stop.
func (t *throttle) addTo(m *Metrics) {
	if limit := t.waiting.Load(); limit != nil {
		m.WriteStallReason = limit.reason
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m.WriteStallTotals = maps.Clone(t.totals)
	for _, total := range t.totals {
		m.WriteStalls += total.Stalls
		m.WriteStallTime += total.Time
	}
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
		return stopMemtables, d.flushErr
	case len(s.version.Levels[0].Files) >= d.opts.L0StopTrigger:
		return stopLevel0, d.compactor.Stuck(s.version)
	}
	return "", nil
}
