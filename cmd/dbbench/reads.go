package main

import (
	"context"
	"errors"
	"sync"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

// get looks up th.key and counts it if it is found.
func (s *session) get(th *thread) error {
	var err error
	th.value, err = s.store.GetTo(th.value[:0], th.key)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err == nil {
		th.found++
		th.bytes += uint64(len(th.key) + len(th.value))
	}
	return err
}

// lookups returns the job of getting the keys that pick appends to its argument.
func (s *session) lookups(name string, pick func(th *thread, dst []byte) []byte) job {
	return job{name: name, threads: s.cfg.Threads, steps: s.reads(s.keys.num), finds: true,
		begin: func(th *thread) (step, func() error, error) {
			return func(int) error {
				th.key = pick(th, th.key[:0])
				return s.get(th)
			}, nil, nil
		}}
}

// randomKey appends one of the first n keys.
func (s *session) randomKey(n int) func(th *thread, dst []byte) []byte {
	return func(th *thread, dst []byte) []byte { return s.keys.appendKey(dst, th.rng.IntN(n)) }
}

func readRandom(ctx context.Context, s *session, name string) error {
	return s.measureAndPrint(ctx, s.lookups(name, s.randomKey(s.keys.num)))
}

func readMissing(ctx context.Context, s *session, name string) error {
	missing := s.keys.numMissing()
	return s.measureAndPrint(ctx, s.lookups(name, func(th *thread, dst []byte) []byte {
		return s.keys.appendMissing(dst, th.rng.IntN(missing))
	}))
}

// readHot reads from the first hundredth of the keys, as in db_bench.
func readHot(ctx context.Context, s *session, name string) error {
	return s.measureAndPrint(ctx, s.lookups(name, s.randomKey((s.keys.num+99)/100)))
}

// readWhileWriting measures readers only. A concurrent writer runs until they are done.
func readWhileWriting(ctx context.Context, s *session, name string) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	writer := s.newThread()
	var writes uint64
	var writeErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		for ; writing.Err() == nil && writeErr == nil; writes++ {
			writeErr = s.put(writer, writer.rng.IntN(s.keys.num), db.NoSync)
		}
	})
	r, err := s.measure(ctx, s.lookups(name, s.randomKey(s.keys.num)))
	stop()
	wait.Wait()
	r.Note = bench.Counted(writes, "concurrent write")
	s.addResult(r)
	return errors.Join(err, writeErr)
}
