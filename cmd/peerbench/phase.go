package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// ioCounts are the operating system's counts for this process.
type ioCounts struct {
	ReadCalls, ReadBytes       uint64 // ReadBytes are from the device
	WriteBytes, WriteCallBytes uint64 // of dirtied pages, and of write calls
	MajorFaults                uint64 // page faults that waited for the device
}

// counters are read before and after a pass.
type counters struct {
	time    time.Time
	cpu     float64
	mallocs uint64
	io      ioCounts
	hasIO   bool
}

func readCounters() counters {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c := counters{cpu: cpuSeconds(), mallocs: m.Mallocs, time: time.Now()}
	c.io, c.hasIO = readIO()
	return c
}

// passOptions are the settings of one pass of a task.
type passOptions struct {
	ops, threads int
	timed        bool // time each operation, with one reading of the clock
	check        bool // compare values with those that were written
}

// passResult is the result of a pass.
type passResult struct {
	ops, found, bytes uint64
	latencies         *hdrhistogram.Histogram // nanoseconds; nil unless timed
	before, after     counters
	lastTenth         float64 // operations per second; 0 unless timed
	background        *paced  // nil without concurrent writes
}

const maxLatency = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, maxLatency.Nanoseconds(), 3)
}

// pass runs a task, whose operations the threads share, and checks the number of keys found.
func (s *session) pass(t task, o passOptions) (*passResult, error) {
	s.passes++
	threads := make([]*thread, o.threads)
	for i := range threads {
		threads[i] = &thread{index: i, threads: o.threads, check: o.check,
			rng: rand.New(rand.NewPCG(seed, s.passes<<16+uint64(i))), buffer: make([]byte, 0, s.cfg.ValueSize+64)}
	}
	runtime.GC() // so this pass does not pay for earlier garbage
	bench.ResetPeak()
	r := &passResult{}
	if o.timed {
		r.latencies = newHistogram()
	}
	errs := make([]error, o.threads+1)
	var mu sync.Mutex // guards r while threads end
	var running, background sync.WaitGroup
	stop := make(chan struct{})
	r.before = readCounters()
	if t.background != nil {
		background.Go(func() { r.background, errs[o.threads] = t.background(stop) })
	}
	for i, th := range threads {
		running.Go(func() {
			ops, h, err := th.run(t, share(o.ops, o.threads, i), o.timed)
			mu.Lock()
			defer mu.Unlock()
			r.ops, r.found, r.bytes, errs[i] = r.ops+ops, r.found+th.found, r.bytes+th.bytes, err
			if h != nil {
				r.latencies.Merge(h)
				r.lastTenth += th.lastTenth
			}
		})
	}
	running.Wait()
	r.after = readCounters()
	close(stop)
	background.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if t.want != nil {
		if want := t.want(r.ops); r.found != want {
			return nil, fmt.Errorf("found %s keys; want %s", bench.Grouped(r.found), bench.Grouped(want))
		}
	}
	return r, nil
}

// share returns thread i's part of n operations.
func share(n, threads, i int) int { return (n + threads - 1 - i) / threads }

// run does at least ops operations.
func (th *thread) run(t task, ops int, timed bool) (done uint64, h *hdrhistogram.Histogram, err error) {
	do, end, err := t.begin(th)
	if err != nil {
		return 0, nil, err
	}
	if timed {
		h = newHistogram()
	}
	began := time.Now()
	last, tenth, before := time.Duration(0), time.Duration(-1), uint64(0)
	for i := 0; done < uint64(ops) && err == nil; i++ {
		var n int
		n, err = do(i)
		done += uint64(n)
		if timed {
			now := time.Since(began) // reads only the monotonic clock
			// Longer times count as maxLatency.
			_ = h.RecordValue(min(now-last, maxLatency).Nanoseconds())
			last = now
			if tenth < 0 && done >= uint64(ops-ops/10) {
				tenth, before = now, done
			}
		}
	}
	if tenth >= 0 && done > before {
		th.lastTenth = float64(done-before) / (last - tenth).Seconds()
	}
	if end != nil {
		err = errors.Join(err, end())
	}
	return done, h, err
}
