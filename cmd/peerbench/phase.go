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

// ioCounts are the system's counts for this process.
type ioCounts struct {
	ReadCalls, ReadBytes       uint64 // ReadBytes came from the device
	WriteBytes, WriteCallBytes uint64 // dirtied pages; bytes handed to write calls
	MajorFaults                uint64 // page faults that waited for the device
}

// counters is what is read before and after a phase.
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

// passOptions say how a task is gone through.
type passOptions struct {
	ops, threads int
	timed        bool // each operation, by one reading of the clock
	check        bool
}

// passResult is what a pass came to.
type passResult struct {
	ops, found, bytes uint64
	latencies         *hdrhistogram.Histogram // nanoseconds; nil unless timed
	before, after     counters
	beside            *paced // nil where nothing went on beside
}

const maxLatency = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, maxLatency.Nanoseconds(), 3)
}

// pass runs a task, its operations shared by the threads, and checks how many
// keys it found.
func (s *session) pass(t task, o passOptions) (*passResult, error) {
	s.passes++
	threads := make([]*thread, o.threads)
	for i := range threads {
		threads[i] = &thread{index: i, threads: o.threads, check: o.check,
			rng: rand.New(rand.NewPCG(seed, s.passes<<16+uint64(i))), buffer: make([]byte, 0, s.cfg.ValueSize+64)}
	}
	runtime.GC() // what came before shall not be charged to this pass
	bench.ResetPeak()
	r := &passResult{}
	if o.timed {
		r.latencies = newHistogram()
	}
	errs := make([]error, o.threads+1)
	var mu sync.Mutex // r, while threads end
	var running, beside sync.WaitGroup
	stop := make(chan struct{})
	r.before = readCounters()
	if t.beside != nil {
		beside.Go(func() { r.beside, errs[o.threads] = t.beside(stop) })
	}
	for i, th := range threads {
		running.Go(func() {
			ops, h, err := th.run(t, share(o.ops, o.threads, i), o.timed)
			mu.Lock()
			defer mu.Unlock()
			r.ops, r.found, r.bytes, errs[i] = r.ops+ops, r.found+th.found, r.bytes+th.bytes, err
			if h != nil {
				r.latencies.Merge(h)
			}
		})
	}
	running.Wait()
	r.after = readCounters()
	close(stop)
	beside.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if t.want != nil {
		if want := t.want(r.ops); r.found != want {
			return nil, fmt.Errorf("found %s keys, but %s of those looked for are stored", bench.Grouped(r.found), bench.Grouped(want))
		}
	}
	return r, nil
}

// share is thread i's part of n.
func share(n, threads, i int) int { return (n + threads - 1 - i) / threads }

// run does at least so many operations.
func (th *thread) run(t task, ops int, timed bool) (done uint64, h *hdrhistogram.Histogram, err error) {
	do, end, err := t.begin(th)
	if err != nil {
		return 0, nil, err
	}
	if timed {
		h = newHistogram()
	}
	began := time.Now()
	last := time.Duration(0)
	for i := 0; done < uint64(ops) && err == nil; i++ {
		var n int
		n, err = do(i)
		done += uint64(n)
		if timed {
			now := time.Since(began) // reads the monotonic clock alone
			// Longer than the histogram's longest counts as that.
			_ = h.RecordValue(min(now-last, maxLatency).Nanoseconds())
			last = now
		}
	}
	if end != nil {
		err = errors.Join(err, end())
	}
	return done, h, err
}
