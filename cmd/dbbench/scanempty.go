package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/vfs"
)

// The keys of scanempty are numbers of emptyDigits digits, emptyGap apart. A scan covers
// emptyLength absent numbers with the same hundreds.
const (
	emptyDigits = 16
	emptyGap    = 1000
	emptyLength = 30
	emptyBits   = 16 // of each prefix and of each key
)

// emptyKinds are the range filters that are compared.
var emptyKinds = []struct {
	name     string
	policies []rangefilter.Policy
}{
	{"none", nil},
	{"prefix", []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(emptyDigits-2), emptyBits)}},
	{"grafite", []rangefilter.Policy{rangefilter.NewGrafite(rangefilter.FixedPrefix(0), rangefilter.Decimal(emptyDigits), emptyBits)}},
}

// scanEmpty fills a database in random order and scans empty ranges between stored keys: without
// range filters, and with each kind, which an upgrade adds to the same tables.
func scanEmpty(ctx context.Context, s *session, name string) error {
	keys := &keySpace{num: s.keys.num * emptyGap, keySize: emptyDigits}
	if err := s.fillGaps(ctx, name, keys); err != nil {
		return err
	}
	for _, kind := range emptyKinds {
		if err := s.scanGaps(ctx, name+" "+kind.name, keys, kind.policies); err != nil {
			return err
		}
	}
	return s.closeDB() // the next workload has other options
}

func (s *session) fillGaps(ctx context.Context, name string, keys *keySpace) error {
	bar := s.newProgress(name, s.keys.num, 0)
	defer bar.close()
	th := s.newThread()
	for i, n := range th.rng.Perm(s.keys.num) {
		if i%checkEvery == 0 {
			bar.done.Store(int64(i))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		th.key = keys.appendKey(th.key[:0], n*emptyGap)
		if err := s.store.Put(th.key, th.values.Next(s.cfg.ValueSize), db.NoSync); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

// scanGaps scans with the given range filters, and counts the reads at the file system.
func (s *session) scanGaps(ctx context.Context, name string, keys *keySpace, ranges []rangefilter.Policy) error {
	if err := s.addRangeFilters(ctx, ranges); err != nil {
		return err
	}
	reads, err := readLayouts(vfs.OS, s.dir)
	if err != nil {
		return err
	}
	s.fs.Observe(reads.observe)
	defer s.fs.Observe(nil)
	o := s.cfg.options()
	o.FS, o.ReadOnly, o.Filters.RangePolicies, o.Cache.Size = s.fs, true, ranges, cacheOption(s.reportCache())
	if s.store, err = db.Open(s.dir, o); err != nil {
		return err
	}
	r, err := s.measure(ctx, job{name: name, threads: s.cfg.Threads, steps: s.reads(s.keys.num), finds: true,
		begin: func(th *thread) (step, func() error, error) {
			var lower, upper []byte
			return func(int) error {
				from := emptyRange(th.rng, s.keys.num)
				lower, upper = keys.appendKey(lower[:0], from), keys.appendKey(upper[:0], from+emptyLength)
				found, err := s.countKeys(lower, upper)
				th.found += found
				return err
			}, nil, nil
		}})
	if err == nil {
		m, c := s.store.Metrics(), reads.counts()
		perScan := func(n uint64) float64 { return float64(n) / float64(max(r.Ops, 1)) }
		r.Note = fmt.Sprintf("per scan: %.4f data blocks read, %.2f tables skipped; %s bytes of range filters",
			perScan(c.Data), perScan(m.Total().RangeNegatives), bench.Grouped(m.Tables.RangeFilterBytes))
	}
	s.addResult(r)
	return errors.Join(err, s.closeDB())
}

// addRangeFilters adds these range filters to the tables, and leaves the database closed.
func (s *session) addRangeFilters(ctx context.Context, ranges []rangefilter.Policy) error {
	if err := s.closeDB(); err != nil || len(ranges) == 0 {
		return err
	}
	o := s.cfg.options()
	o.FS, o.Filters.RangePolicies = s.fs, ranges
	store, err := db.Open(s.dir, o)
	if err != nil {
		return err
	}
	_, err = store.UpgradeFilters(ctx, nil, nil)
	return errors.Join(err, store.Close())
}

// emptyRange returns the start of an empty range: in one of the nine hundreds after the hundred that starts with a key.
func emptyRange(rng *rand.Rand, num int) int {
	return rng.IntN(num)*emptyGap + 100*(1+rng.IntN(9)) + rng.IntN(100-emptyLength)
}

// countKeys returns the number of keys from lower up to but not including upper.
func (s *session) countKeys(lower, upper []byte) (n uint64, err error) {
	it, err := s.store.NewIterator(&db.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, it.Close()
}
