package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// thread is one goroutine's share of a workload: its own random numbers,
// buffers and counts, so that measuring shares nothing.
type thread struct {
	rng    *rand.Rand
	values *bench.ValueSource
	key    []byte // scratch
	value  []byte // scratch

	bytes uint64 // keys and values that went in or out
	found uint64
	steps uint64
	ops   uint64 // where a step is not one operation; 0: they are as many as steps

	latencies *hdrhistogram.Histogram // nanoseconds; nil unless asked for
	elapsed   time.Duration
}

// A step does operation i of a thread, i counted from 0 without end.
type step func(i int) error

// errDone ends a thread before its operations are done: there is nothing left
// to do.
var errDone = errors.New("done")

// job is a workload about to be measured.
type job struct {
	name    string
	threads int
	steps   int  // of each thread; without meaning if there is a duration
	once    bool // one step, whatever the duration asked for
	finds   bool // the steps look for something, and count what they found
	// begin makes the step of one thread, and what to call after its last.
	begin func(th *thread) (s step, end func() error, err error)
}

// maxLatency is the longest operation that a histogram tells apart, a minute.
const maxLatency = time.Minute

// newThread makes a thread whose random numbers are its own, also among those
// of other workloads: a readrandom that drew fillrandom's numbers once more
// would find every key.
func (s *session) newThread() *thread {
	s.threadsMade++
	rng := rand.New(rand.NewPCG(s.cfg.Seed, s.threadsMade))
	th := &thread{rng: rng, values: bench.NewValueSource(rng, s.cfg.ValueSize, s.cfg.CompressionRatio)}
	if s.cfg.Histogram {
		th.latencies = hdrhistogram.New(1, maxLatency.Nanoseconds(), 3)
	}
	return th
}

// measure runs a job and returns what came of it. After an interrupt it returns
// the part that was done, with ctx's error.
func (s *session) measure(ctx context.Context, j job) (*result, error) {
	limit := time.Duration(s.cfg.Duration)
	if j.once {
		limit = 0
	}
	bar := s.newProgress(j.name, j.threads*j.steps, limit)
	threads := make([]*thread, j.threads)
	for i := range threads {
		threads[i] = s.newThread()
	}
	// A thread that fails ends the others.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runtime.GC() // what came before shall not be charged to this job
	before := readAllocations()
	began := time.Now()
	var running sync.WaitGroup
	for _, th := range threads {
		running.Go(func() {
			if err := th.run(ctx, j, limit, bar.done); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	wall := time.Since(began)
	after := readAllocations()
	bar.close()
	r := newResult(j.name, threads, wall)
	if j.finds {
		r.setFound(threads)
	}
	r.setAllocations(before, after)
	return r, context.Cause(ctx)
}

// checkEvery is how many steps are done between two looks at the clock and at
// ctx: few enough that an interrupt is heeded at once even where each step is
// an fsync.
const checkEvery = 16

func (th *thread) run(ctx context.Context, j job, limit time.Duration, done *atomic.Int64) (err error) {
	s, end, err := j.begin(th)
	if err != nil {
		return err
	}
	began := time.Now()
	if err = th.loop(ctx, s, j.steps, limit, done); errors.Is(err, errDone) {
		err = nil
	}
	th.elapsed = time.Since(began)
	if end != nil {
		err = errors.Join(err, end())
	}
	return err
}

func (th *thread) loop(ctx context.Context, s step, steps int, limit time.Duration, done *atomic.Int64) error {
	began := time.Now()
	last := began
	for i := 0; limit > 0 || i < steps; i++ {
		if i%checkEvery == 0 && i > 0 {
			done.Add(checkEvery)
			if ctx.Err() != nil || limit > 0 && time.Since(began) >= limit {
				return nil
			}
		}
		if err := s(i); err != nil {
			return err
		}
		th.steps++
		if th.latencies != nil {
			now := time.Now()
			// Longer than the histogram's longest counts as that.
			_ = th.latencies.RecordValue(min(now.Sub(last), maxLatency).Nanoseconds())
			last = now
		}
	}
	return nil
}

// allocations is what the whole process has allocated so far: the store's
// background work is part of what a workload costs.
type allocations struct{ objects, bytes uint64 }

func readAllocations() allocations {
	// Stops the world for a moment, but counts each object; runtime/metrics leaves
	// out what the processors' own caches have handed out since the last
	// collection, which is all that a short workload allocates.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocations{objects: m.Mallocs, bytes: m.TotalAlloc}
}
