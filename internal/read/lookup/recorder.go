package lookup

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// recorder keeps the slowest of a sample of the lookups, explained as they happened. The Finder has one only
// while somebody reads it: the lookup that follows a measured one is then explained. Neither is chosen by its
// key or its duration, so one in counters.SampledOneIn lookups is recorded, and other lookups pay nothing.
type recorder struct {
	until atomic.Int64 // nanoseconds since recorderOrigin; afterwards nothing is recorded
	floor atomic.Int64 // shorter durations are not among the slowest of the present period

	mu     sync.Mutex          // guards the fields below
	began  time.Time           // of the present period
	recent []report.SlowLookup // of the present period, the slowest first
	before []report.SlowLookup // of the period before
}

const (
	recordPeriod = time.Minute
	mostRecorded = 16 // of each period
	// mostKeyBytes bounds the memory of a recorded key.
	mostKeyBytes = 1 << 10
	// longestRecord is a century and more, and the sum with the present time does not overflow.
	longestRecord = math.MaxInt64 / 2
)

var recorderOrigin = time.Now()

// Slowest returns the slowest of the recorded lookups of the last one to two minutes, the slowest first, and
// records for some time more. Without a call in that time, recording ends.
func (f *Finder) Slowest(record time.Duration) []report.SlowLookup {
	r := f.recorder.Load()
	if r == nil {
		r = &recorder{began: time.Now()}
		if !f.recorder.CompareAndSwap(nil, r) {
			return f.Slowest(record)
		}
	}
	r.until.Store(int64(time.Since(recorderOrigin) + min(record, longestRecord)))
	return r.slowest()
}

// isOver reports whether the time of recording is over at now. If so, the Finder forgets the recorder.
func (f *Finder) isOver(r *recorder, now time.Time) bool {
	if now.Sub(recorderOrigin) < time.Duration(r.until.Load()) {
		return false
	}
	f.recorder.CompareAndSwap(r, nil)
	return true
}

// findRecorded is Find and records how the lookup went.
func (f *Finder) findRecorded(r *recorder, lookup *sstable.Lookup, key []byte, at *At) ([]byte, error) {
	began := time.Now()
	x := &Explained{counts: f.counts.Own()}
	if err := x.find(f, lookup, key, at); err != nil {
		return f.Find(lookup, key, at) // it starts over, and counts a failure
	}
	x.Duration = time.Since(began)
	value, err := x.value, error(nil)
	switch {
	case x.Kind != base.KindSet:
		err = base.ErrNotFound
	case f.expiry != nil:
		value, err = f.open(key, value, at)
		x.Expired = err == base.ErrNotFound
	}
	r.add(x, key, began)
	return value, err
}

// add keeps a lookup if it is one of the slowest.
func (r *recorder) add(x *Explained, key []byte, began time.Time) {
	if int64(x.Duration) < r.floor.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked(began)
	place, _ := slices.BinarySearchFunc(r.recent, x.Duration, func(s report.SlowLookup, d time.Duration) int {
		return cmp.Compare(d, s.Explanation.Duration)
	})
	if place == mostRecorded {
		return
	}
	slow := report.SlowLookup{Time: began, Key: bytes.Clone(key[:min(len(key), mostKeyBytes)]), KeyBytes: len(key), Explanation: x.Explanation()}
	for i := range slow.Explanation.Steps {
		slow.Explanation.Steps[i].Smallest, slow.Explanation.Steps[i].Largest = nil, nil // they may be large
	}
	r.recent = slices.Insert(r.recent, place, slow)
	if len(r.recent) >= mostRecorded {
		r.recent = r.recent[:mostRecorded]
		r.floor.Store(int64(r.recent[mostRecorded-1].Explanation.Duration))
	}
}

// turnLocked begins a new period if the present one is over.
func (r *recorder) turnLocked(now time.Time) {
	age := now.Sub(r.began)
	if age < recordPeriod {
		return
	}
	r.before = r.recent
	if age >= 2*recordPeriod {
		r.before = nil
	}
	r.recent, r.began = nil, now
	r.floor.Store(0)
}

// slowest returns what is kept. Its readers turn the periods when no lookup is slow enough to do so.
func (r *recorder) slowest() []report.SlowLookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnLocked(time.Now())
	all := slices.Concat(r.recent, r.before)
	slices.SortStableFunc(all, func(a, b report.SlowLookup) int {
		return cmp.Compare(b.Explanation.Duration, a.Explanation.Duration)
	})
	return all[:min(len(all), mostRecorded)]
}
