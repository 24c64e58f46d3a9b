package main

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const writesPerSecond = 10_000

// readWhileWriting measures the readers; the writer beside them keeps its pace.
func readWhileWriting(s *session) task {
	t := readStored(s)
	t.beside = func(stop <-chan struct{}) (*paced, error) {
		th := &thread{threads: 1, rng: rand.New(rand.NewPCG(seed, 1<<32))}
		began := time.Now()
		p := pace{each: writesPerSecond / 1000, tick: time.Millisecond, elapsed: func() time.Duration { return time.Since(began) }}
		return p.keep(stop, func() error { return s.put(th, th.rng.Uint64N(uint64(s.cfg.Num))) })
	}
	return t
}

// shares are the operations of a YCSB workload in per cent; the rest reads.
type shares struct {
	update, insert, modify uint64
	latest                 bool // reads want what was inserted last
	scan                   bool // reads are scans
}

const maxScan = 100

// ycsb makes a workload of the Yahoo! Cloud Serving Benchmark (Cooper and others,
// SoCC 2010). Popular keys are scattered over the key space, as there, and so are
// those that are inserted. A scan reads up to 100 entries, each length as often.
// A read-modify-write is a Get and a Put, one after the other.
func ycsb(mix shares) func(s *session) task {
	return func(s *session) task {
		popular := newZipfian(s.cfg.Num)
		var keys atomic.Uint64 // that are stored
		keys.Store(uint64(s.cfg.Num))
		var blind atomic.Uint64 // writes that look for nothing
		return task{
			want: func(ops uint64) uint64 { return ops - blind.Swap(0) },
			begin: func(th *thread) (func(int) (int, error), func() error, error) {
				return func(int) (int, error) {
					n := s.order.at(popular.draw(th.rng))
					dice := th.rng.Uint64N(100)
					switch {
					case dice < mix.insert:
						blind.Add(1)
						return 1, s.putKey(th, s.inserted(th, keys.Add(1)-1))
					case dice < mix.update:
						blind.Add(1)
						return 1, s.put(th, n)
					case mix.latest:
						return 1, s.getKey(th, s.inserted(th, keys.Load()-1-popular.draw(th.rng)))
					case mix.scan:
						return 1, s.scanFrom(th, n, int(th.rng.Uint64N(maxScan)))
					case dice < mix.modify:
						if err := s.getStored(th, n); err != nil {
							return 1, err
						}
						return 1, s.put(th, n)
					}
					return 1, s.getStored(th, n)
				}, nil, nil
			},
		}
	}
}

// inserted makes th.key the key of insert i, counted from the first of the load,
// and returns the number whose value it has. As YCSB's keys, which are hashes of
// such numbers, those inserted after the load stand between the others in random
// order. When as many were inserted as loaded, they begin again.
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
