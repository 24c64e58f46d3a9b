package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// paced is the result of operations at a given rate.
type paced struct {
	ops   uint64
	time  time.Duration
	waits *hdrhistogram.Histogram // nanoseconds
}

// A pace is the number of operations that are due at the end of each tick.
type pace struct {
	each    int
	tick    time.Duration
	elapsed func() time.Duration // since the start
}

func (p pace) due(op uint64) time.Duration {
	return time.Duration(op/uint64(p.each)+1) * p.tick
}

// keep does operations when they are due, until stop is closed. The wait of an operation is counted
// from when it was due, not from when it started, so a pause shows in the waits of all operations
// that were due in it. Operations that were due but not done at the end count as waits until then.
func (p pace) keep(stop <-chan struct{}, do func() error) (*paced, error) {
	r := &paced{waits: newHistogram()}
	wait := func(op uint64, now time.Duration) {
		_ = r.waits.RecordValue(min(now-p.due(op), maxLatency).Nanoseconds()) // never negative
	}
	ticks := time.NewTicker(p.tick)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			r.time = p.elapsed()
			for op := r.ops; p.due(op) <= r.time; op++ {
				wait(op, r.time)
			}
			return r, nil
		default:
		}
		if p.due(r.ops) > p.elapsed() {
			select { // the loop checks which of them happened
			case <-stop:
			case <-ticks.C:
			}
			continue
		}
		if err := do(); err != nil {
			return nil, err
		}
		wait(r.ops, p.elapsed())
		r.ops++
	}
}
