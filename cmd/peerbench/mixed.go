package main

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const writesPerSecond = 10_000

// readWhileWriting measures the readers. The concurrent writer has a fixed pace.
func readWhileWriting(s *session) task {
	t := readStored(s)
	t.background = func(stop <-chan struct{}) (*paced, error) {
		th := &thread{threads: 1, rng: rand.New(rand.NewPCG(seed, 1<<32))}
		began := time.Now()
		p := pace{each: writesPerSecond / 1000.0, tick: time.Millisecond, elapsed: func() time.Duration { return time.Since(began) }}
		return p.keep(stop, func() error { return s.put(th, th.rng.Uint64N(uint64(s.cfg.Num))) })
	}
	return t
}

// shares are the operations of a YCSB workload in per cent; the others are reads.
type shares struct {
	update, insert, modify uint64
	latest                 bool // reads are of the latest inserts
	scan                   bool // reads are scans
}

const maxScan = 100

// ycsb returns a workload of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC 2010). As
// there, popular keys and inserted keys are scattered over the key space. A scan reads 1 to 100
// entries, all lengths with the same probability. A read-modify-write is a Get and then a Put.
func ycsb(mix shares) func(s *session) task {
	return func(s *session) task {
		y := &ycsbRun{session: s, mix: mix, popular: newZipfian(s.cfg.Num)}
		y.stored.Store(uint64(s.cfg.Num))
		return task{
			want: func(ops uint64) uint64 { return ops - y.blind.Swap(0) },
			begin: func(th *thread) (func(int) (int, error), func() error, error) {
				return func(int) (int, error) { return 1, y.operate(th) }, nil, nil
			},
		}
	}
}

// ycsbRun is the state that the threads of a YCSB workload share.
type ycsbRun struct {
	*session
	mix     shares
	popular *zipfian
	stored  atomic.Uint64 // keys
	blind   atomic.Uint64 // writes without a read
}

// operate does one operation of the mix.
func (y *ycsbRun) operate(th *thread) error {
	n := y.order.at(y.popular.draw(th.rng))
	dice := th.rng.Uint64N(100)
	switch {
	case dice < y.mix.insert:
		y.blind.Add(1)
		return y.putKey(th, y.inserted(th, y.stored.Add(1)-1))
	case dice < y.mix.update:
		y.blind.Add(1)
		return y.put(th, n)
	case y.mix.latest:
		return y.getKey(th, y.inserted(th, y.stored.Load()-1-y.popular.draw(th.rng)))
	case y.mix.scan:
		return y.scanFrom(th, n, int(th.rng.Uint64N(maxScan)))
	case dice < y.mix.modify:
		if err := y.getStored(th, n); err != nil {
			return err
		}
		return y.put(th, n)
	}
	return y.getStored(th, n)
}

// inserted sets th.key to the key of insert i, counted from the first of the load, and returns the
// number of its value. Keys inserted after the load are between the others in random order, like
// YCSB's keys, which are hashes of such numbers. After as many inserts as loaded keys, they repeat.
func (s *session) inserted(th *thread, i uint64) uint64 {
	num := uint64(s.cfg.Num)
	if i < num {
		n := s.order.at(i)
		th.key = s.keys.stored(th.key, n)
		return n
	}
	i %= num
	th.key = s.keys.absent(th.key, s.order.at(i))
	return num + i
}
