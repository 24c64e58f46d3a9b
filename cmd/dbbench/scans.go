package main

import (
	"context"

	"github.com/sievedb/sievedb/db"
)

func readSeq(ctx context.Context, s *session, name string) error {
	return s.scan(ctx, name, (*db.Iterator).First, (*db.Iterator).Next)
}

func readReverse(ctx context.Context, s *session, name string) error {
	return s.scan(ctx, name, (*db.Iterator).Last, (*db.Iterator).Prev)
}

// scan reads entries in order, until the last one or the number of steps is reached. With
// --duration it starts again after the last entry.
func (s *session) scan(ctx context.Context, name string, start, next func(*db.Iterator) bool) error {
	return s.measureAndPrint(ctx, job{name: name, threads: s.cfg.Threads, steps: s.reads(s.keys.num),
		begin: func(th *thread) (step, func() error, error) {
			it, err := s.store.NewIterator(nil)
			if err != nil {
				return nil, nil, err
			}
			move := start
			return func(i int) error {
				if !move(it) {
					if err := it.Err(); err != nil || i == 0 || s.cfg.Duration == 0 {
						return orDone(err)
					}
					if !start(it) {
						return orDone(it.Err())
					}
				}
				move = next
				th.bytes += uint64(len(it.Key()) + len(it.Value()))
				return nil
			}, it.Close, nil
		}})
}

func orDone(err error) error {
	if err == nil {
		return errDone
	}
	return err
}

// seekRandom creates an iterator for each seek, as in db_bench. A key counts as found if the
// iterator is at that very key.
func seekRandom(ctx context.Context, s *session, name string) error {
	return s.measureAndPrint(ctx, job{name: name, threads: s.cfg.Threads, steps: s.reads(s.keys.num), finds: true,
		begin: func(th *thread) (step, func() error, error) {
			return func(int) error {
				th.key = s.keys.appendKey(th.key[:0], th.rng.IntN(s.keys.num))
				return s.seek(th)
			}, nil, nil
		}})
}

func (s *session) seek(th *thread) error {
	it, err := s.store.NewIterator(nil)
	if err != nil {
		return err
	}
	ok := it.SeekGE(th.key)
	if ok && string(it.Key()) == string(th.key) {
		th.found++
	}
	for n := 0; ok; n++ {
		th.bytes += uint64(len(it.Key()) + len(it.Value()))
		if n == s.cfg.SeekNexts {
			break
		}
		ok = it.Next()
	}
	if err := it.Err(); err != nil {
		_ = it.Close() // return the first error
		return err
	}
	return it.Close()
}
