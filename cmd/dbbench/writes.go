package main

import (
	"context"

	"github.com/sievedb/sievedb/db"
)

// An ordering returns the key numbers of one thread's writes.
type ordering func(s *session, th *thread) func(i int) int

func inOrder(s *session, _ *thread) func(i int) int {
	return func(i int) int { return i % s.keys.num }
}

func atRandom(s *session, th *thread) func(i int) int { return s.keys.order(th.rng) }

// put writes key number n.
func (s *session) put(th *thread, n int, wo *db.WriteOptions) error {
	value := s.entry(th, n)
	return s.store.Put(th.key, value, wo)
}

// entry sets th.key to key number n and returns its value.
func (s *session) entry(th *thread, n int) []byte {
	th.key = s.keys.appendKey(th.key[:0], n)
	value, given := s.keys.givenValue(n)
	if !given {
		value = th.values.Next(s.cfg.ValueSize)
	}
	th.bytes += uint64(len(th.key) + len(value))
	return value
}

// fill writes as many times as there are keys, with one Put each.
func fill(order ordering) func(context.Context, *session, string) error {
	return func(ctx context.Context, s *session, name string) error {
		return s.fillWith(ctx, name, order, s.keys.num, db.NoSync)
	}
}

// fillSync does a thousandth of fillrandom's writes, as in db_bench, since a synced write takes
// about a thousand times as long.
func fillSync(ctx context.Context, s *session, name string) error {
	return s.fillWith(ctx, name, atRandom, max(s.keys.num/1000, 1), db.Sync)
}

func (s *session) fillWith(ctx context.Context, name string, order ordering, writes int, wo *db.WriteOptions) error {
	return s.measureAndPrint(ctx, job{name: name, threads: s.cfg.Threads, steps: writes,
		begin: func(th *thread) (step, func() error, error) {
			number := order(s, th)
			return func(i int) error { return s.put(th, number(i), wo) }, nil, nil
		}})
}

func fillBatch(ctx context.Context, s *session, name string) error {
	size := min(s.cfg.BatchSize, s.keys.num)
	batches := (s.keys.num + size - 1) / size
	return s.measureAndPrint(ctx, job{name: name, threads: s.cfg.Threads, steps: batches,
		begin: func(th *thread) (step, func() error, error) {
			var b db.Batch
			return func(i int) error {
				b.Reset()
				first := i % batches * size
				for n := first; n < min(first+size, s.keys.num); n++ {
					value := s.entry(th, n)
					b.Put(th.key, value)
				}
				th.ops += uint64(b.Len())
				return s.store.Apply(&b, db.NoSync)
			}, nil, nil
		}})
}

// fillBulk loads the keys, repeatedly with --duration. The last step of a load includes its Commit,
// which syncs, unlike the other fills.
func fillBulk(ctx context.Context, s *session, name string) error {
	return s.measureAndPrint(ctx, job{name: name, threads: 1, steps: s.keys.num,
		begin: func(th *thread) (step, func() error, error) {
			l, err := s.store.NewLoader()
			if err != nil {
				return nil, nil, err
			}
			step := func(i int) error {
				n := i % s.keys.num
				if n == 0 && i > 0 {
					if l, err = s.store.NewLoader(); err != nil {
						return err
					}
				}
				value := s.entry(th, n)
				if err := l.Put(th.key, value); err != nil || n+1 < s.keys.num {
					return err
				}
				return l.Commit()
			}
			return step, func() error { return l.Close() }, nil
		}})
}

func deleteRandom(ctx context.Context, s *session, name string) error {
	return s.measureAndPrint(ctx, job{name: name, threads: s.cfg.Threads, steps: s.keys.num,
		begin: func(th *thread) (step, func() error, error) {
			return func(int) error {
				th.key = s.keys.appendKey(th.key[:0], th.rng.IntN(s.keys.num))
				th.bytes += uint64(len(th.key))
				return s.store.Delete(th.key, db.NoSync)
			}, nil, nil
		}})
}
