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

// thread is one goroutine's share of a workload. It has its own random numbers, buffers and
// counts, so the measurement shares nothing.
type thread struct {
	rng    *rand.Rand
	values *bench.ValueSource
	key    []byte // scratch
	value  []byte // scratch

	bytes uint64 // keys and values, read or written
	found uint64
	steps uint64
	ops   uint64 // if a step is not one operation; 0: as many as steps

	latencies *hdrhistogram.Histogram // nanoseconds; nil without --histogram
	elapsed   time.Duration
}

// A step does operation i of a thread, counted from 0.
type step func(i int) error

// errDone ends a thread before all of its operations, since nothing is left to do.
var errDone = errors.New("done")

// job is a workload to be measured.
type job struct {
	name    string
	threads int
	steps   int  // of each thread; ignored with --duration
	once    bool // a single step, regardless of --duration
	finds   bool // the steps look up keys and count those that they find
	// begin returns the step of one thread, and end, to be called after the last step; it may be nil.
	begin func(th *thread) (s step, end func() error, err error)
}

// maxLatency is the longest time that a histogram distinguishes.
const maxLatency = time.Minute

// newThread returns a thread whose random numbers differ from those of all other threads, also of
// other workloads: if readrandom drew fillrandom's numbers again, it would find every key.
func (s *session) newThread() *thread {
	s.threadsMade++
	rng := rand.New(rand.NewPCG(s.cfg.Seed, s.threadsMade))
	th := &thread{rng: rng, values: bench.NewValueSource(rng, s.cfg.ValueSize, s.cfg.CompressionRatio)}
	if s.cfg.Histogram {
		th.latencies = hdrhistogram.New(1, maxLatency.Nanoseconds(), 3)
	}
	return th
}

// measure runs a job and returns its result. If ctx is cancelled, it returns the result so far and the cause.
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
	runtime.GC() // so this job does not pay for garbage of earlier ones
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

// checkEvery is the number of steps between checks of the clock and of ctx: few enough for a quick
// response to an interrupt even if each step is an fsync.
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
			// Longer times count as maxLatency.
			_ = th.latencies.RecordValue(min(now.Sub(last), maxLatency).Nanoseconds())
			last = now
		}
	}
	return nil
}

// allocations is what the whole process has allocated so far. The store's background work is part of a workload's cost.
type allocations struct{ objects, bytes uint64 }

func readAllocations() allocations {
	// ReadMemStats stops the world for a moment, but counts each object. runtime/metrics omits the allocations from
	// per-processor caches since the last collection, which are all allocations of a short workload.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocations{objects: m.Mallocs, bytes: m.TotalAlloc}
}
