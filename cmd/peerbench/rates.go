package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// rated is the part of --scale that overwrites random keys at fixed rates, each in a process of its own. Writes as
// fast as possible come first. Their number divided by the time of writing and settling is the engine's highest rate,
// which it could sustain: nothing is left to compact.
const rated = "rates"

const ratePrefix = "writes, "

const fullSpeed = ratePrefix + "full speed"

func shareName(share int) string { return fmt.Sprintf(ratePrefix+"%d %%", share) }
func rateName(rate int) string   { return ratePrefix + bench.Grouped(uint64(rate)) + "/s" }

// measureRates measures each number of writers.
func (c *comparison) measureRates(ctx context.Context, cfg *config, dir, engine string) error {
	for _, writers := range cfg.Writers {
		at := func(name string, rate float64) (*result, error) {
			if err := syncFiles(dir); err != nil {
				return nil, err
			}
			q := request{Config: cfg, Dir: dir, Engine: engine, Workload: rated, Threads: writers, Rate: rate}
			r, err := c.measureStep(ctx, name, q)
			if err != nil {
				err = fmt.Errorf("%s, %d writers: %w", name, writers, err)
			}
			return r, err
		}
		fastest, err := at(fullSpeed, 0)
		if err != nil {
			return err
		}
		for _, share := range cfg.RateShares {
			if _, err := at(shareName(share), *fastest.SettledOpsPerSec*float64(share)/100); err != nil {
				return err
			}
		}
		for _, rate := range cfg.Rates {
			if _, err := at(rateName(rate), float64(rate)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeAtRate is the process of one rate.
func (q *request) writeAtRate(d engine.Driver) (r *result, err error) {
	s := newSession(q.Config, q.Dir)
	if s.engine, err = d.Open(q.Dir, q.Config.Options); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.engine.Close()) }()
	r = &result{Engine: d.Name, Threads: q.Threads}
	p, waits, err := s.writeFor(time.Duration(q.Config.RateTime)*time.Second, q.Rate, q.Threads)
	if err != nil {
		return nil, err
	}
	r.setMeasured(p, d.Native)
	if q.Rate > 0 {
		r.Further.OfferedPerSec, r.Further.Waits = &q.Rate, waits
	}
	rested, err := s.settle()
	if err != nil {
		return nil, err
	}
	r.setSettled(p, readCounters(), rested.Sub(p.after.time).Seconds())
	r.DiskBytes, err = s.diskBytes()
	return r, err
}

// rateTick is the time after which a writer looks for writes that have become due. A write is due at the end of its
// tick, so the writes of one tick wait for each other.
const rateTick = time.Millisecond

// writeFor overwrites random keys, at a rate that the writers share, or as fast as possible if it is 0. Writers start
// at different times of a tick, like clients that do not know of each other.
func (s *session) writeFor(long time.Duration, rate float64, writers int) (*passResult, *latency, error) {
	runtime.GC()
	bench.ResetPeak()
	all, threads, errs := make([]*paced, writers), make([]*thread, writers), make([]error, writers)
	p := &passResult{latencies: newHistogram(), before: readCounters()}
	stop := make(chan struct{})
	timer := time.AfterFunc(long, func() { close(stop) })
	defer timer.Stop()
	var running sync.WaitGroup
	for i := range writers {
		th := &thread{index: i, threads: writers, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		threads[i] = th
		running.Go(func() {
			time.Sleep(rateTick * time.Duration(i) / time.Duration(writers))
			began := time.Now()
			keeper := pace{each: rate / float64(writers) * rateTick.Seconds(), tick: rateTick,
				elapsed: func() time.Duration { return time.Since(began) }}
			all[i], errs[i] = keeper.keep(stop, func() error { return s.put(th, th.rng.Uint64N(uint64(s.cfg.Num))) })
		})
	}
	running.Wait()
	p.after = readCounters()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	waits := newHistogram()
	for i, w := range all {
		p.ops, p.bytes = p.ops+w.ops, p.bytes+threads[i].bytes
		p.latencies.Merge(w.calls)
		waits.Merge(w.waits)
	}
	return p, summarize(waits), nil
}
