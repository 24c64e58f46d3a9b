package main

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// paced is the result of operations at a given rate.
type paced struct {
	ops   uint64
	time  time.Duration
	waits *hdrhistogram.Histogram // nanoseconds, since operations were due
	calls *hdrhistogram.Histogram // nanoseconds, since operations began
}

// A pace is the number of operations that are due at the end of each tick, on average. With 0, operations are always
// due, and no waits are recorded.
type pace struct {
	each    float64
	tick    time.Duration
	elapsed func() time.Duration // since the start
}

func (p pace) due(op uint64) time.Duration {
	if p.each == 0 {
		return 0
	}
	return time.Duration(math.Ceil(float64(op+1)/p.each)) * p.tick
}

// keep does operations when they are due, until stop is closed. The wait of an operation is counted
// from when it was due, not from when it started, so a pause shows in the waits of all operations
// that were due in it. Operations that were due but not done at the end count as waits until then.
func (p pace) keep(stop <-chan struct{}, do func() error) (*paced, error) {
	r := &paced{waits: newHistogram(), calls: newHistogram()}
	wait := func(op uint64, now time.Duration) {
		_ = r.waits.RecordValue(min(now-p.due(op), maxLatency).Nanoseconds()) // never negative
	}
	ticks := time.NewTicker(p.tick)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			r.time = p.elapsed()
			for op := r.ops; p.each > 0 && p.due(op) <= r.time; op++ {
				wait(op, r.time)
			}
			return r, nil
		default:
		}
		began := p.elapsed()
		if p.due(r.ops) > began {
			select { // the loop checks which of them happened
			case <-stop:
			case <-ticks.C:
			}
			continue
		}
		if err := do(); err != nil {
			return nil, err
		}
		now := p.elapsed()
		if p.each > 0 {
			wait(r.ops, now)
		}
		_ = r.calls.RecordValue(min(now-began, maxLatency).Nanoseconds())
		r.ops++
	}
}
