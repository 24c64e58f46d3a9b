package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

// showcase is what runs where no workload is named: it loads the keys, unless
// the database is there already, and reports the disk reads that filters save.
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
	fmt.Fprintf(s.stdout, "Loaded %s %s in random order in %.1f s: nine tenths, compacted, then the last tenth on top.\n",
		bench.Grouped(uint64(s.keys.num)), s.keyNoun(), time.Since(began).Seconds())
	return filterReads(ctx, s, reportName)
}

func (s *session) keyNoun() string {
	if s.cfg.Keys == "" {
		return "words"
	}
	return "keys"
}

// load stores all keys so that the tables come to lie as in a store that is
// still written to: nine tenths of the keys in the lowest level and the newest
// tenth in a table of level 0, both of the whole alphabet. So a lookup has two
// runs to consult, whatever the timing of background work was. One compacted
// run alone would flatter the filter-off side; the number of tables in level 0
// that happen to await compaction would make each run of this command differ.
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
