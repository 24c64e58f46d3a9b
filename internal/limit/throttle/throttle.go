package throttle

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/report"
)

// Throttle slows writers down gradually when flushes and compactions cannot keep up, to avoid
// sudden write stalls. It has three limits:
//
//   - Tables in level 0. Between the slowdown and the stop trigger, the granted rate falls
//     exponentially from startRate to endRate.
//   - Memtables that wait for their flush. While the last allowed memtable fills, writes go
//     no faster than four fifths of the rate of flushes, which sets the pace in any case. The
//     flush under way began earlier, so it ends before that memtable is full. Stops went from 59
//     to 1, the longest from 499 to 53 ms.
//   - Values that nothing refers to, of which more are written than collected.
type Throttle struct {
	o     Options
	brief func(time.Duration) bool // waits if it is so short that the system does that better than Pause

	limit atomic.Pointer[writeLimit] // nil if writes are not limited
	owed  time.Duration              // used by the leader only; slept off once it is worth a timer
	// flushRate is a running mean of flush speed, in arena bytes per second, or 0 if it is
	// not known yet. Only Update and ObserveFlush use it, and only one of them runs at a time.
	flushRate float64

	waiting atomic.Pointer[writeLimit] // the limit the leader is sleeping for, nil if it is not

	mu     sync.Mutex
	totals map[string]Total // by reason; mu guards it
}

// Limits say when writers are slowed.
type Limits struct {
	// Writes are slowed once level 0 has L0SlowdownTrigger tables, and more strongly as their number approaches
	// L0StopTrigger. They are also slowed while MaxMemtables wait for their flush.
	L0SlowdownTrigger, L0StopTrigger, MaxMemtables int
}

// Options are the limits that the store sets, and the functions that a Throttle calls.
type Options struct {
	Limits
	// Pause waits, or returns early if the store closes. It is not called for what the system waits for exactly.
	Pause func(time.Duration)
	// Stalled is called after each wait. stopped is true for a writer that could not continue at all.
	Stalled func(reason string, stopped bool, took time.Duration)
}

// New returns a throttle that does not limit writes until Update is called.
func New(o Options) *Throttle { return &Throttle{o: o, brief: brief} }

// Total counts the waits for one reason, with their total and longest duration.
type Total struct {
	Count             uint64
	Duration, Longest time.Duration
}

// writeLimit is a rate, with the reason for the limit.
type writeLimit struct {
	nanosPerByte float64
	reason       string
}

// The reasons for which writes wait.
const (
	SlowLevel0    = report.SlowLevel0
	SlowMemtables = report.SlowMemtables
	SlowValues    = report.SlowValues
	StopLevel0    = report.StopLevel0
	StopPaused    = report.StopPaused
	StopMemtables = report.StopMemtables
	StopMemory    = report.StopMemory
)

const (
	startRate = 64 << 20 // bytes per second
	endRate   = 1 << 20
	longest   = 50 * time.Millisecond // of one wait
	credit    = time.Millisecond      // at most so much of what was slept too long counts for later writes
	// An entry of 16 + 100 bytes uses up to a quarter more space in an arena than in a log.
	flushShare = 0.8
)

// SetLimits replaces the limits, from the next Update on. The two are not called concurrently.
func (t *Throttle) SetLimits(l Limits) { t.o.Limits = l }

// Update sets the limit for these numbers of tables in level 0 and of memtables that wait
// for their flush, and for collections of values that have fallen behind by garbage, from 0 to 1.
func (t *Throttle) Update(level0, memtables int, garbage float64) {
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
	if garbage > 0 {
		grant(startRate*math.Pow(float64(endRate)/startRate, garbage), SlowValues)
	}
	t.limit.Store(limit)
}

// ObserveFlush records that the flush of a memtable of size bytes took that long. A memtable
// less than half full is ignored, since a sync dominates the duration of its flush.
func (t *Throttle) ObserveFlush(size, capacity int, took time.Duration) {
	if size < capacity/2 {
		return
	}
	rate := float64(size) / math.Max(took.Seconds(), 1e-6)
	if t.flushRate > 0 {
		rate = (3*t.flushRate + rate) / 4
	}
	t.flushRate = rate
}

// Slow makes the leader wait for as long as recordBytes take at the current rate.
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
	if wait := min(t.owed, longest); !t.brief(wait) {
		t.o.Pause(wait)
	}
	t.waiting.Store(nil)
	took := time.Since(start)
	t.owed = max(-credit, t.owed-took) // a short sleep takes up to twice its time
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

// Now returns the reason why the leader is slowed at this moment, or "" if it is not.
func (t *Throttle) Now() string {
	if limit := t.waiting.Load(); limit != nil {
		return limit.reason
	}
	return ""
}

// Waits returns the totals by reason, or nil if there were no waits.
func (t *Throttle) Waits() map[string]Total {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.totals)
}
