package compact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// shapeOfLevels returns the bounds of the tables of each level, in the level's order.
func shapeOfLevels(t testing.TB, d *db.DB) (shape [][]string) {
	shape = make([][]string, db.NumLevels)
	files, err := d.Tables()
	require.NoError(t, err)
	for _, f := range files {
		shape[f.Level] = append(shape[f.Level], fmt.Sprintf("%x-%x, %d entries", f.Smallest, f.Largest, f.Entries))
	}
	return shape
}

// overwritten returns a store whose level 0 has several tables of the same keys, above tables on
// another level. Its tables were written with the policy was, and it is reopened with the policy of o.
func overwritten(t *testing.T, o *db.Options, was filter.Policy) *db.DB {
	becomes := o.Filters.Policy
	o.Filters.Policy = was
	d := storetest.ManyTables(t, o, 5)
	for round := range 3 {
		for i := 0; i < 4000; i += 97 {
			require.NoError(t, d.Put(fixture.Key(i), fmt.Appendf(nil, "round %d", round), db.NoSync))
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	o.Compaction.MaxLevelBase = 1 << 20 // new filters may be larger, and must not make a level full
	d = storetest.Open(t, o)
	storetest.Settle(t, d)
	require.NoError(t, d.Close())
	o.Filters.Policy = becomes
	return storetest.Open(t, o)
}

func answers(t *testing.T, d *db.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range 4000 {
		v, err := d.Get(fixture.Key(i))
		if !errors.Is(err, db.ErrNotFound) {
			require.NoError(t, err)
			all[string(fixture.Key(i))] = string(v)
		}
	}
	return all
}

func TestUpgradedTablesHaveTheNewFiltersAndNothingElseChanges(t *testing.T) {
	race.SkipInShort(t)
	fuse := filter.FusePolicy{}
	for name, tc := range map[string]struct {
		was, becomes filter.Policy
		policy       string // that lookups query
	}{
		"LevelDB's to cache lines":        {filter.NewBloomPolicy(10), nil, filter.NewCacheLineBloomPolicy(10).Name()},
		"none to binary fuse":             {filter.None, fuse, fuse.Name()},
		"ten bits to twenty":              {filter.NewCacheLineBloomPolicy(10), filter.NewCacheLineBloomPolicy(20), filter.NewCacheLineBloomPolicy(20).Name()},
		"two kinds to one":                {nil, filter.NewBloomPolicy(10), filter.NewBloomPolicy(10).Name()},
		"LevelDB's under goleveldb's too": {filter.NewBloomPolicy(10), filter.LegacyBloom, filter.LegacyBloom.Name()},
	} {
		t.Run(name, func(t *testing.T) {
			o := storetest.Options(vfs.NewMem())
			o.Filters.Policy = tc.becomes
			d := overwritten(t, o, tc.was)
			before, shape := answers(t, d), shapeOfLevels(t, d)
			require.Greater(t, len(shape[0]), 5)

			plan, err := d.UpgradeFilters(context.Background(), nil, &db.UpgradeOptions{DryRun: true})
			require.NoError(t, err)
			require.Equal(t, shape, shapeOfLevels(t, d))
			reported := 0
			done, err := d.UpgradeFilters(context.Background(), nil, &db.UpgradeOptions{Progress: func(r db.UpgradeReport) { reported = r.Upgraded }})
			require.NoError(t, err)
			require.Equal(t, done.Upgraded, reported)
			require.InEpsilon(t, done.FilterBytesAfter, plan.FilterBytesAfter, 0.1,
				"with other keys, a binary fuse filter may need a few more slots")
			require.InDelta(t, done.WastedReadsAfter, plan.WastedReadsAfter, 1e-3,
				"tables that are only copied along may have had other filters of that size")
			plan.Duration, plan.FilterBytesAfter, plan.WastedReadsAfter = done.Duration, done.FilterBytesAfter, done.WastedReadsAfter
			require.Equal(t, plan, done)
			require.Greater(t, done.Upgraded, done.Tables/2)
			require.Equal(t, done.Tables, done.Upgraded+done.Current, "small tables may have had as many bits before")
			require.Positive(t, done.Bytes)

			require.Equal(t, shape, shapeOfLevels(t, d), "the levels and the order in level 0 are unchanged")
			require.Equal(t, before, answers(t, d))
			filters, err := d.Filters(context.Background(), 200)
			require.NoError(t, err)
			for _, f := range filters.Tables {
				require.Equal(t, tc.policy, f.Policy)
				require.Equal(t, "whole table", f.Layout)
				require.Zero(t, f.Probes.Denied)
			}
			report, err := d.Check(context.Background())
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.NoError(t, storetest.StrayFilesWhenIdle(d, o.FS))

			again, err := d.UpgradeFilters(context.Background(), nil, nil)
			require.NoError(t, err)
			require.Zero(t, again.Upgraded)
			require.Equal(t, again.Tables, again.Current)
			require.NoError(t, d.Close())
			require.Equal(t, before, answers(t, storetest.Open(t, o)))
		})
	}
}

func TestAnUpgradeMeetsABudget(t *testing.T) {
	o := storetest.BudgetOptions(vfs.NewMem())
	d := storetest.Grown(t, o, 100300)
	require.GreaterOrEqual(t, storetest.OccupiedLevels(d), 4)
	before, memory := storetest.Wasted(t, d, 20000)
	require.NoError(t, d.Close())
	o.Filters.Budget = int64(memory)
	d = storetest.Open(t, o)
	_, err := d.UpgradeFilters(context.Background(), nil, nil)
	require.NoError(t, err)
	after, bytes := storetest.Wasted(t, d, 20000)
	t.Logf("%.4f wasted reads with %d bytes of filters before, %.4f with %d after", before, memory, after, bytes)
	require.LessOrEqual(t, after, before/2)
	require.LessOrEqual(t, bytes, memory+memory/20, "tables that compactions wrote meanwhile count as well")
	again, err := d.UpgradeFilters(context.Background(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, again.Tables, again.Upgraded+again.Current)
}

// Reads, writes, flushes and compactions continue while tables are upgraded, back and forth.
func TestUpgradesConcurrentWithWritersAndReaders(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Compaction.MaxConcurrent = 2
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 1000)
	var done atomic.Bool
	var others sync.WaitGroup
	for w := range 2 {
		others.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for i := 0; !done.Load(); i++ {
				key := fixture.Key(2*rnd.IntN(500) + w) // each its own keys
				want := fmt.Appendf(nil, "%d", i)
				if err := d.Put(key, want, db.NoSync); err != nil {
					t.Error(err)
					return
				}
				if got, err := d.Get(key); err != nil || !bytes.Equal(want, got) {
					t.Errorf("%q is %q (%v), want %q", key, got, err, want)
					return
				}
			}
		})
	}
	upgraded := 0
	for i := 0; i < 12 || upgraded == 0; i++ { // compactions may have claimed all tables of one round
		policy := []filter.Policy{filter.FusePolicy{}, filter.NewBloomPolicy(10), nil}[i%3]
		r, err := d.UpgradeFilters(context.Background(), policy, nil)
		require.NoError(t, err)
		upgraded += r.Upgraded
	}
	done.Store(true)
	others.Wait()
	storetest.Settle(t, d)
	report, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.NoError(t, storetest.StrayFilesWhenIdle(d, o.FS))
}

// Each operation of an upgrade fails once. The store gives the same answers, no files remain, and
// the next call completes the upgrade.
func TestAnErrorAtEveryOperationOfAnUpgrade(t *testing.T) {
	failed := errors.New("injected")
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Tables.Compression = db.SnappyCompression // otherwise the upgrade begins with reads whose failure is no error
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	want := answers(t, d)
	require.NoError(t, d.Close())
	const none = 1 << 62
	steps, errs, skipped, least := uint64(none), 0, uint64(40), 20
	switch {
	case race.Enabled:
		skipped, least = 1, 3
	case testing.Short():
		skipped, least = 4, 10
	}
	for at := uint64(none); at <= steps; at += 1 + at/skipped { // from 1 on
		failing := at // at changes while the store removes files
		var from, count atomic.Uint64
		from.Store(1 << 62)
		disk := mem.Crash() // a copy: all is synced
		o.FS = wrap.NewFaulty(disk, func(op wrap.Op) *wrap.Fault {
			if op.Index < from.Load() {
				return nil
			}
			if count.Add(1) == failing {
				return &wrap.Fault{Err: failed}
			}
			return nil
		})
		d, err := db.Open("db", o)
		require.NoError(t, err)
		from.Store(0)
		_, err = d.UpgradeFilters(context.Background(), nil, nil)
		from.Store(1 << 62)
		if at == none { // only to count the operations
			require.NoError(t, err)
			steps, at = count.Load(), 0
			require.NoError(t, d.Close())
			continue
		}
		if err != nil {
			require.ErrorIs(t, err, failed)
			errs++
		}
		require.Equal(t, want, answers(t, d), "operation %d", at)
		_ = d.Close()
		o.FS = disk
		d, err = db.Open("db", o)
		require.NoError(t, err)
		_, err = d.UpgradeFilters(context.Background(), nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, answers(t, d), "operation %d", at)
		require.NoError(t, storetest.StrayFilesWhenIdle(d, disk))
		require.NoError(t, d.Close())
	}
	require.Greater(t, errs, least)
}

// A load that is committed during a filter upgrade is newer than the existing tables, in level 0
// too. An upgrade that begins when the load's tables already have their numbers must wait.
func TestLoadsDuringUpgrades(t *testing.T) {
	var atRename atomic.Pointer[func()]
	o := storetest.Options(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if f := atRename.Load(); f != nil && op.Kind == wrap.OpRename && atRename.CompareAndSwap(f, nil) {
			(*f)()
		}
		return nil
	}))
	o.Compaction.L0Trigger = 100 // loads stay in level 0
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	for round, policy := range []filter.Policy{filter.FusePolicy{}, filter.NewBloomPolicy(10), nil} {
		want := fmt.Appendf(nil, "round %d", round)
		l := storetest.NewLoader(t, d)
		for i := range 100 {
			require.NoError(t, l.Put(fixture.Key(i), want))
		}
		upgraded := make(chan error, 1)
		during := func() {
			go func() {
				_, err := d.UpgradeFilters(context.Background(), policy, nil)
				upgraded <- err
			}()
			select {
			case err := <-upgraded: // which should not happen
				upgraded <- err
			case <-time.After(50 * time.Millisecond):
			}
		}
		atRename.Store(&during)
		require.NoError(t, l.Commit())
		require.Nil(t, atRename.Load(), "an upgrade was begun")
		require.NoError(t, <-upgraded)
		for i := range 100 {
			got, err := d.Get(fixture.Key(i))
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
}
