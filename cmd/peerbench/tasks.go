package main

import (
	"math/rand/v2"
)

// A task is the work of a workload.
type task struct {
	// begin is called once in each thread. do is called with i counted from 0 and returns the number
	// of operations that it did. end, if not nil, is called after the last one.
	begin func(th *thread) (do func(i int) (ops int, err error), end func() error, err error)
	// want returns the number of keys that ops operations must find; nil: not checked.
	want func(ops uint64) uint64
	// background, if not nil, runs concurrently with the task until stop is closed.
	background func(stop <-chan struct{}) (*paced, error)
}

// thread is one goroutine's share of a task.
type thread struct {
	index, threads int // of the threads of this pass
	rng            *rand.Rand
	check          bool // compare values with those that were written
	key, buffer    []byte
	found          uint64
	bytes          uint64  // of keys and values written
	lastTenth      float64 // operations per second
	used           byte    // keeps the reads of use
}

func everything(ops uint64) uint64 { return ops }
func nothing(uint64) uint64        { return 0 }

// simple returns a task in which do is one operation.
func simple(want func(uint64) uint64, do func(th *thread, i int) error) task {
	return task{want: want, begin: func(th *thread) (func(int) (int, error), func() error, error) {
		return func(i int) (int, error) { return 1, do(th, i) }, nil, nil
	}}
}

// number returns the number of the thread's i-th operation among those of all threads.
func (th *thread) number(i int) uint64 { return uint64(i*th.threads + th.index) }

func (s *session) put(th *thread, n uint64) error {
	th.key = s.keys.stored(th.key, n)
	return s.putKey(th, n)
}

// putKey writes th.key with the value of key n.
func (s *session) putKey(th *thread, n uint64) error {
	th.bytes += uint64(keySize + s.cfg.ValueSize)
	return s.engine.Put(th.key, s.value(n))
}

func fillSeq(s *session) task {
	return simple(nil, func(th *thread, i int) error { return s.put(th, th.number(i)) })
}

func fillRandom(s *session) task {
	return simple(nil, func(th *thread, i int) error { return s.put(th, s.order.at(th.number(i))) })
}

// batchSize is the number of keys per batch in fillbatch, and loadBatch that of loading the database
// of other workloads.
const (
	batchSize = 100
	loadBatch = 1000
)

func fillBatch(s *session) task {
	return s.batches(batchSize, func(n uint64) uint64 { return n })
}

func load(s *session) task { return s.batches(loadBatch, s.order.at) }

// batches puts every key once, in the given order.
func (s *session) batches(size int, order func(uint64) uint64) task {
	return task{begin: func(th *thread) (func(int) (int, error), func() error, error) {
		return func(i int) (int, error) {
			first := i * size
			n := min(size, s.cfg.Num-first)
			th.bytes += uint64(n * (keySize + s.cfg.ValueSize))
			return n, s.engine.Apply(n, func(j int) ([]byte, []byte) {
				number := order(uint64(first + j))
				th.key = s.keys.stored(th.key, number)
				return th.key, s.value(number)
			})
		}, nil, nil
	}}
}

func overwrite(s *session) task {
	return simple(nil, func(th *thread, _ int) error { return s.put(th, th.rng.Uint64N(uint64(s.cfg.Num))) })
}

func deleteRandom(s *session) task {
	return simple(nil, func(th *thread, i int) error {
		th.key = s.keys.stored(th.key, s.order.at(th.number(i)))
		th.bytes += keySize
		return s.engine.Delete(th.key)
	})
}

// getStored looks up key n, and counts and checks it if it is found.
func (s *session) getStored(th *thread, n uint64) error {
	th.key = s.keys.stored(th.key, n)
	return s.getKey(th, n)
}

// getKey looks up th.key, whose value must be that of key n.
func (s *session) getKey(th *thread, n uint64) error {
	value, found, err := s.engine.Get(th.buffer[:0], th.key)
	if err != nil || !found {
		return err
	}
	th.found++
	if cap(value) > cap(th.buffer) {
		th.buffer = value
	}
	return s.checkValue(th, n, value)
}

func readStored(s *session) task {
	return simple(everything, func(th *thread, _ int) error { return s.getStored(th, th.rng.Uint64N(uint64(s.cfg.Num))) })
}

func readAbsent(s *session) task {
	return simple(nothing, func(th *thread, _ int) error {
		th.key = s.keys.absent(th.key, th.rng.Uint64N(uint64(s.cfg.Num)))
		_, found, err := s.engine.Get(th.buffer[:0], th.key)
		if found {
			th.found++
		}
		return err
	})
}

// readHot reads neighbouring keys, as in db_bench.
func readHot(s *session) task {
	hot := uint64(s.cfg.Num+99) / 100
	return simple(everything, func(th *thread, _ int) error { return s.getStored(th, th.rng.Uint64N(hot)) })
}
