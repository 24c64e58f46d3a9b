package throttle

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Throttle slows writers down as the background falls behind, a little at first, so
// that they do not run into a wall. There are two walls:
//
//   - level 0. Between the slowdown and the stop trigger the rate granted falls
//     exponentially from startRate to endRate.
//   - memtables that wait for their flush. While the last one that there may be is
//     filled, writes go no faster than flushes: it is full when the next flush is done,
//     which began before it did.
type Throttle struct {
	o Options

	limit atomic.Pointer[writeLimit] // nil: none
	owed  time.Duration              // the leader's: slept off in portions worth a timer
	// flushRate is a running mean of flushes, in bytes of an arena a second; 0: not known
	// yet. Only update and NoteFlush use it, of which one runs at a time.
	flushRate float64

	waiting atomic.Pointer[writeLimit] // what the leader is slowed for at this moment

	mu     sync.Mutex
	totals map[string]Total // by reason; mu guards it
}

// Options are those of the store, and the functions that a Throttle calls.
type Options struct {
	// Writes are slowed from L0SlowdownTrigger tables of level 0 on, the more so the
	// nearer they are to L0StopTrigger, and once MaxMemtables wait for their flush.
	L0SlowdownTrigger, L0StopTrigger, MaxMemtables int
	// Pause waits, or returns early if the store closes.
	Pause func(time.Duration)
	// Stalled is called after each wait. stopped is true for a writer that could not go
	// on at all.
	Stalled func(reason string, stopped bool, took time.Duration)
}

// New returns a throttle without a limit.
func New(o Options) *Throttle { return &Throttle{o: o} }

// Total sums up the waits for one reason.
type Total struct {
	Count             uint64
	Duration, Longest time.Duration
}

// writeLimit is a rate, and why there is one.
type writeLimit struct {
	nanosPerByte float64
	reason       string
}

// Why writes wait. Those that are slowed have other reasons than those that stop.
const (
	SlowLevel0    = "level 0 has many tables"
	SlowMemtables = "the last memtable fills"
	StopLevel0    = "level 0 is full"
	StopMemtables = "memtables wait for their flush"
)

const (
	startRate = 64 << 20 // bytes a second
	endRate   = 1 << 20
	portion   = time.Millisecond
	longest   = 50 * time.Millisecond // of one wait
	// An entry of 16 + 100 bytes takes up to a quarter more of an arena than of a log.
	flushShare = 0.8
)

// Update sets the limit for so many tables of level 0 and memtables that wait for their
// flush.
func (t *Throttle) Update(level0, memtables int) {
	var limit *writeLimit
	grant := func(rate float64, reason string) {
		if nanos := 1e9 / rate; limit == nil || nanos > limit.nanosPerByte {
			limit = &writeLimit{nanos, reason}
		}
	}
	if slow, stop := t.o.L0SlowdownTrigger, t.o.L0StopTrigger; level0 >= slow {
		fraction := math.Min(1, float64(level0-slow)/float64(stop-slow))
		grant(startRate*math.Pow(float64(endRate)/startRate, fraction), SlowLevel0)
	}
	if memtables >= t.o.MaxMemtables && t.flushRate > 0 {
		grant(math.Max(endRate, flushShare*t.flushRate), SlowMemtables)
	}
	t.limit.Store(limit)
}

// NoteFlush notes how long the flush of a memtable of so many bytes took. One that is half
// empty is ignored: it took as long as a sync, whatever its size.
func (t *Throttle) NoteFlush(size, capacity int, took time.Duration) {
	if size < capacity/2 {
		return
	}
	rate := float64(size) / math.Max(took.Seconds(), 1e-6)
	if t.flushRate > 0 {
		rate = (3*t.flushRate + rate) / 4
	}
	t.flushRate = rate
}

// Slow makes the leader wait for what recordBytes cost at the present rate.
func (t *Throttle) Slow(recordBytes int) {
	limit := t.limit.Load()
	if limit == nil {
		t.owed = 0
		return
	}
	t.owed += time.Duration(limit.nanosPerByte * float64(recordBytes))
	if t.owed < portion {
		return
	}
	start := time.Now()
	t.waiting.Store(limit)
	t.o.Pause(min(t.owed, longest))
	t.waiting.Store(nil)
	took := time.Since(start)
	t.owed = max(0, t.owed-took)
	t.Record(limit.reason, false, took)
}

// Record adds a wait to the totals and reports it.
func (t *Throttle) Record(reason string, stopped bool, took time.Duration) {
	t.mu.Lock()
	if t.totals == nil {
		t.totals = make(map[string]Total)
	}
	total := t.totals[reason]
	total.Count++
	total.Duration += took
	total.Longest = max(total.Longest, took)
	t.totals[reason] = total
	t.mu.Unlock()
	t.o.Stalled(reason, stopped, took)
}

// Now returns why the leader is slowed at this moment, "" if it is not.
func (t *Throttle) Now() string {
	if limit := t.waiting.Load(); limit != nil {
		return limit.reason
	}
	return ""
}

// Waits returns the totals by reason, nil if there were no waits.
func (t *Throttle) Waits() map[string]Total {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.totals)
}
