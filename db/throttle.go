package db

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// writeThrottle slows writers down as the background falls behind, a little at first, so
// that they do not run into a wall. There are two walls:
//
//   - level 0. Between the slowdown and the stop trigger the rate granted falls
//     exponentially from startRate to endRate.
//   - memtables that wait for their flush. While the last one that there may be is
//     filled, writes go no faster than flushes: it is full when the next flush is done,
//     which began before it did.
type writeThrottle struct {
	o throttleOptions

	limit atomic.Pointer[writeLimit] // nil: none
	owed  time.Duration              // the leader's: slept off in portions worth a timer
	// flushRate is a running mean of flushes, in bytes of an arena a second; 0: not known
	// yet. Only update and noteFlush use it, of which one runs at a time.
	flushRate float64

	waiting atomic.Pointer[writeLimit] // what the leader is slowed for at this moment

	mu     sync.Mutex
	totals map[string]stallTotal // by reason; mu guards it
}

// throttleOptions are those of the store, and what it does for a throttle.
type throttleOptions struct {
	// Writes are slowed from L0SlowdownTrigger tables of level 0 on, the more so the
	// nearer they are to L0StopTrigger, and once MaxMemtables wait for their flush.
	L0SlowdownTrigger, L0StopTrigger, MaxMemtables int
	// Pause waits, or returns early if the store closes.
	Pause func(time.Duration)
	// Stalled is called after each wait. stopped is true for a writer that could not go
	// on at all.
	Stalled func(reason string, stopped bool, took time.Duration)
}

// newThrottle returns a throttle without a limit.
func newThrottle(o throttleOptions) *writeThrottle { return &writeThrottle{o: o} }

// stallTotal sums up the waits for one reason.
type stallTotal struct {
	Stalls        uint64
	Time, Longest time.Duration
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

// update sets the limit for so many tables of level 0 and memtables that wait for their
// flush.
func (t *writeThrottle) update(level0, memtables int) {
	var limit *writeLimit
	grant := func(rate float64, reason string) {
		if nanos := 1e9 / rate; limit == nil || nanos > limit.nanosPerByte {
			limit = &writeLimit{nanos, reason}
		}
	}
	if slow, stop := t.o.L0SlowdownTrigger, t.o.L0StopTrigger; level0 >= slow {
		fraction := math.Min(1, float64(level0-slow)/float64(stop-slow))
		grant(throttleStartRate*math.Pow(float64(throttleEndRate)/throttleStartRate, fraction), slowLevel0)
	}
	if memtables >= t.o.MaxMemtables && t.flushRate > 0 {
		grant(math.Max(throttleEndRate, throttleFlushShare*t.flushRate), slowMemtables)
	}
	t.limit.Store(limit)
}

// noteFlush notes how long the flush of a memtable of so many bytes took. One that is half
// empty is ignored: it took as long as a sync, whatever its size.
func (t *writeThrottle) noteFlush(size, capacity int, took time.Duration) {
	if size < capacity/2 {
		return
	}
	rate := float64(size) / math.Max(took.Seconds(), 1e-6)
	if t.flushRate > 0 {
		rate = (3*t.flushRate + rate) / 4
	}
	t.flushRate = rate
}

// slow makes the leader wait for what recordBytes cost at the present rate.
func (t *writeThrottle) slow(recordBytes int) {
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
	t.o.Pause(min(t.owed, throttleLongest))
	t.waiting.Store(nil)
	took := time.Since(start)
	t.owed = max(0, t.owed-took)
	t.record(limit.reason, false, took)
}

// record adds a wait to the totals and reports it.
func (t *writeThrottle) record(reason string, stopped bool, took time.Duration) {
	t.mu.Lock()
	if t.totals == nil {
		t.totals = make(map[string]stallTotal)
	}
	total := t.totals[reason]
	total.Stalls++
	total.Time += took
	total.Longest = max(total.Longest, took)
	t.totals[reason] = total
	t.mu.Unlock()
	t.o.Stalled(reason, stopped, took)
}

// now returns why the leader is slowed at this moment, "" if it is not.
func (t *writeThrottle) now() string {
	if limit := t.waiting.Load(); limit != nil {
		return limit.reason
	}
	return ""
}

// waits returns the totals by reason, nil if there were no waits.
func (t *writeThrottle) waits() map[string]stallTotal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.totals)
}
