package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
)

// measureStores builds all stores, then repeats the lookups in all of them in turns. So a disturbance
// of some seconds affects one repetition of many stores, instead of all repetitions of one.
func (out *sweep) measureStores(ctx context.Context, s *session, root string, stored, absent *keyList, points []sweepPoint) (err error) {
	st := newSweepStore(s, stored.sorted(), absent.sorted())
	st.root = root
	defer func() { err = errors.Join(err, st.closeDB()) }() // before root is removed
	if err := st.buildAll(ctx, points); err != nil {
		return err
	}
	bar := s.newProgress("lookups", s.cfg.Repeat*len(st.targets), 0)
	defer bar.close()
	for range s.cfg.Repeat {
		for _, t := range st.targets {
			if err := st.measure(ctx, t); err != nil {
				return fmt.Errorf("%s: %w", t.run, err)
			}
			if err := t.run.check(); err != nil {
				return fmt.Errorf("%s: %w", t.run, err)
			}
			bar.done.Add(1)
		}
	}
	out.Levels = st.shape
	for i, t := range st.targets {
		r := t.run
		r.MakeNanosPerKey, r.Absent.Micros, r.Present.Micros = median(r.making), median(r.Absent.micros), median(r.Present.micros)
		if i < len(points) {
			out.Stores = append(out.Stores, r)
		} else {
			out.Peers = append(out.Peers, r)
		}
	}
	return nil
}

// buildAll builds a store for each point, and then those of the peers: without filters, with the filters
// of other stores, and with the default filters.
func (st *sweepStore) buildAll(ctx context.Context, points []sweepPoint) error {
	bar := st.newProgress("stores", len(points)+len(peerLayouts)+2, 0)
	defer bar.close()
	for _, p := range points {
		dir := filepath.Join(st.root, fmt.Sprintf("%s-%d", p.Kind, p.Bits))
		if err := st.build(ctx, dir, p.policy()); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		st.add(p, dir, p.policy())
		bar.done.Add(1)
	}
	own := filepath.Join(st.root, ownName)
	if err := st.build(ctx, own, nil); err != nil { // nil: the store's default
		return err
	}
	tables, last, err := st.upgrade(ctx, own)
	if err != nil {
		return err
	}
	st.add(sweepPoint{Kind: noFilters.name}, own, noFilters.policy)
	for i := range peerLayouts {
		l := &peerLayouts[i]
		dir := filepath.Join(st.root, "peer-"+l.name)
		if err := writeLayout(st.fs, own, dir, tables, last, l); err != nil {
			return err
		}
		st.add(sweepPoint{Kind: l.name, Bits: peerBits}, dir, l.policy)
		bar.done.Add(1)
	}
	st.add(sweepPoint{Kind: ownName}, own, nil)
	return nil
}

func (st *sweepStore) add(p sweepPoint, dir string, policy filter.Policy) {
	st.targets = append(st.targets, &sweepTarget{&storeRun{sweepPoint: p}, dir, policy})
}

// upgrade gives each table the default filter of its level, and returns the tables. A Loader does not
// know that a load is above the last level, and a compaction, which would write most tables of a store
// in use, does.
func (st *sweepStore) upgrade(ctx context.Context, dir string) (tables []db.TableInfo, last int, err error) {
	store, err := db.Open(dir, st.options(nil))
	if err != nil {
		return nil, 0, err
	}
	if _, err = store.UpgradeFilters(ctx, nil, nil); err == nil {
		tables, last, err = storeTables(store)
	}
	return tables, last, errors.Join(err, store.Close())
}

// measure repeats the lookups in one store.
func (st *sweepStore) measure(ctx context.Context, t *sweepTarget) error {
	o := st.options(t.policy)
	o.ReadOnly, o.Cache.Size = true, cacheOption(st.sweepCache())
	store, err := db.Open(t.dir, o)
	if err != nil {
		return err
	}
	st.store = store
	levels := newLevelCounts()
	if err = levels.learn(store, t.dir); err == nil { // opens all tables
		st.fs.Observe(levels.observe)
		defer st.fs.Observe(nil)
		m := store.Metrics()
		t.run.FilterBytes = m.Tables.FilterBytes
		t.run.BitsPerKey = 8 * float64(t.run.FilterBytes) / float64(len(st.stored))
		if st.shape == nil {
			st.shape = levelShapes(m)
		}
		err = st.pass(ctx, store, levels, st.absent, &t.run.Absent)
	}
	if err == nil {
		err = st.pass(ctx, store, levels, st.present, &t.run.Present)
	}
	if _, isKind := findSweepKind(t.run.Kind); isKind {
		t.run.making = append(t.run.making, st.makingCost(t.policy))
	}
	return errors.Join(err, st.closeDB())
}

// makingCost returns the time to build filters for all keys, in nanoseconds per key. It uses the
// least of a few times of each filter, since disturbances can only add to it.
func (st *sweepStore) makingCost(p filter.Policy) float64 {
	if p == filter.None {
		return 0
	}
	var sum time.Duration
	var built []byte
	for keys := range slices.Chunk(st.stored, sweepTableKeys) {
		var best time.Duration
		for range 3 {
			began := time.Now()
			built = p.CreateFilter(built[:0], keys)
			if took := time.Since(began); best == 0 || took < best {
				best = took
			}
		}
		sum += best
	}
	return float64(sum.Nanoseconds()) / float64(max(len(st.stored), 1))
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
