package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// paced is what came of writes that were made at a given rate.
type paced struct {
	ops   uint64
	time  time.Duration
	waits *hdrhistogram.Histogram // nanoseconds
}

// A pace is how many operations fall due at the end of each tick.
type pace struct {
	each    int
	tick    time.Duration
	elapsed func() time.Duration // since the beginning
}

func (p pace) due(op uint64) time.Duration {
	return time.Duration(op/uint64(p.each)+1) * p.tick
}

// keep does operations as they fall due until stop is closed. Each waits from
// when it was due, not from when its turn came, until it is done, so that a pause
// shows in the waits of all that fell into it. What was due at the end and is not
// done has waited until then.
func (p pace) keep(stop <-chan struct{}, do func() error) (*paced, error) {
	r := &paced{waits: newHistogram()}
	wait := func(op uint64, now time.Duration) {
		_ = r.waits.RecordValue(min(now-p.due(op), maxLatency).Nanoseconds()) // it is never below 0
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
			select { // whichever comes, the loop finds out
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
