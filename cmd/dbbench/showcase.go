package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

// showcase runs if no workload is named. It loads the keys, unless it uses an existing database,
// and reports the disk reads that filters save.
func (s *session) showcase(ctx context.Context) error {
	if s.cfg.UseExistingDB {
		if err := s.openDB(); err != nil {
			return err
		}
		return filterReads(ctx, s, reportName)
	}
	began := time.Now()
	if err := s.load(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "Loaded %s %s in random order in %.1f s: nine tenths, then compacted; then the last tenth on top.\n",
		bench.Grouped(uint64(s.keys.num)), s.keyNoun(), time.Since(began).Seconds())
	return filterReads(ctx, s, reportName)
}

func (s *session) keyNoun() string {
	if s.cfg.Keys == "" {
		return "words"
	}
	return "keys"
}

// load stores all keys. Its tables are like those of a store that is still written to: nine tenths of the keys are in
// the lowest level and the newest tenth is in a table of level 0, and both span the whole alphabet. So a lookup has two
// sorted runs to consult, whatever the timing of background work. A single compacted run would favour lookups without
// filters. Leaving the number of tables in level 0 to chance would make each run of this command differ.
func (s *session) load(ctx context.Context) error {
	if err := s.freshDB(); err != nil {
		return err
	}
	th := s.newThread()
	order := rand.New(rand.NewPCG(s.cfg.Seed, 0)).Perm(s.keys.num)
	bar := s.newProgress("loading", len(order), 0)
	defer bar.close()
	newest := len(order) - len(order)/10
	for i, n := range order {
		if i == newest {
			if err := s.store.Compact(ctx, nil, nil); err != nil {
				return err
			}
		}
		if err := s.put(th, n, db.NoSync); err != nil {
			return err
		}
		if i%checkEvery == 0 {
			bar.done.Store(int64(i))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	s.allKeysStored = true
	return s.settle(ctx)
}
