package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

var background = context.Background()

// shapeOfLevels returns the bounds of the tables of each level, in the level's order.
func shapeOfLevels(d *DB) (shape [][]string) {
	shape = make([][]string, manifest.NumLevels)
	d.set.Current().Files(func(level int, f *manifest.FileMeta) {
		shape[level] = append(shape[level], fmt.Sprintf("%x-%x", f.Smallest, f.Largest))
	})
	return shape
}

// overwritten returns a store whose level 0 has several tables of the same keys, above tables on
// another level. Its tables were written with the policy was, and it is reopened with the policy of o.
func overwritten(t *testing.T, o *Options, was filter.Policy) *DB {
	becomes := o.Filters.Policy
	o.Filters.Policy = was
	d := manyTables(t, o, 5)
	for round := range 3 {
		for i := 0; i < 4000; i += 97 {
			require.NoError(t, d.Put(testKey(i), fmt.Appendf(nil, "round %d", round), NoSync))
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	o.Compaction.MaxLevelBase = 1 << 20 // new filters may be larger, and must not make a level full
	d = openTest(t, o)
	settle(t, d)
	require.NoError(t, d.Close())
	o.Filters.Policy = becomes
	return openTest(t, o)
}

func answers(t *testing.T, d *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range 4000 {
		v, err := d.Get(testKey(i))
		if !errors.Is(err, ErrNotFound) {
			require.NoError(t, err)
			all[string(testKey(i))] = string(v)
		}
	}
	return all
}

func TestUpgradedTablesHaveTheNewFiltersAndNothingElseChanges(t *testing.T) {
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
			o := testOptions(vfs.NewMem())
			o.Filters.Policy = tc.becomes
			d := overwritten(t, o, tc.was)
			before, shape := answers(t, d), shapeOfLevels(d)
			require.Greater(t, len(shape[0]), 5)

			plan, err := d.UpgradeFilters(background, nil, &UpgradeOptions{DryRun: true})
			require.NoError(t, err)
			require.Equal(t, shape, shapeOfLevels(d))
			reported := 0
			done, err := d.UpgradeFilters(background, nil, &UpgradeOptions{Progress: func(r UpgradeReport) { reported = r.Upgraded }})
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

			require.Equal(t, shape, shapeOfLevels(d), "the levels and the order in level 0 are unchanged")
			require.Equal(t, before, answers(t, d))
			filters, err := d.Filters(background, 200)
			require.NoError(t, err)
			for _, f := range filters.Tables {
				require.Equal(t, tc.policy, f.Policy)
				require.Equal(t, "whole table", f.Layout)
				require.Zero(t, f.Probes.Denied)
			}
			report, err := d.Check(background)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.NoError(t, strayFilesWhenIdle(d, o.FS))

			again, err := d.UpgradeFilters(background, nil, nil)
			require.NoError(t, err)
			require.Zero(t, again.Upgraded)
			require.Equal(t, again.Tables, again.Current)
			require.NoError(t, d.Close())
			require.Equal(t, before, answers(t, openTest(t, o)))
		})
	}
}

func TestAnUpgradeMeetsABudget(t *testing.T) {
	o := budgetOptions(vfs.NewMem())
	d := grown(t, o, 100300)
	require.GreaterOrEqual(t, occupiedLevels(d), 4)
	before, memory := wasted(t, d, 20000)
	require.NoError(t, d.Close())
	o.Filters.Budget = int64(memory)
	d = openTest(t, o)
	_, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	after, bytes := wasted(t, d, 20000)
	t.Logf("%.4f wasted reads with %d bytes of filters before, %.4f with %d after", before, memory, after, bytes)
	require.LessOrEqual(t, after, before/2)
	require.LessOrEqual(t, bytes, memory+memory/20, "tables that compactions wrote meanwhile count as well")
	again, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Equal(t, again.Tables, again.Upgraded+again.Current)
}

func TestBetterFiltersAreExpectedToWasteLess(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := overwritten(t, o, filter.NewCacheLineBloomPolicy(4))
	for policy, better := range map[filter.Policy]bool{filter.NewCacheLineBloomPolicy(16): true, filter.NewCacheLineBloomPolicy(2): false} {
		r, err := d.UpgradeFilters(background, policy, &UpgradeOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, better, r.WastedReadsAfter < r.WastedReadsBefore)
		require.Equal(t, better, r.FilterBytesAfter > r.FilterBytesBefore)
		require.Positive(t, r.WastedReadsAfter)
	}
}

// The bug: the report had 0.0 wasted reads before and after if all tables had their filters already.
func TestUpgradeReportsIncludeWastedReadsOfCurrentTables(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := overwritten(t, o, filter.NewCacheLineBloomPolicy(4))
	policy := filter.NewCacheLineBloomPolicy(10)
	first, err := d.UpgradeFilters(background, policy, nil)
	require.NoError(t, err)
	require.Positive(t, first.Upgraded)
	for _, dry := range []bool{true, false} {
		again, err := d.UpgradeFilters(background, policy, &UpgradeOptions{DryRun: dry})
		require.NoError(t, err)
		require.Zero(t, again.Upgraded)
		require.Positive(t, again.WastedReadsBefore)
		require.Equal(t, again.WastedReadsBefore, again.WastedReadsAfter)
	}
}

func TestAnInterruptedUpgradeIsContinued(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	ctx, cancel := context.WithCancel(background)
	var first UpgradeReport
	_, err := d.UpgradeFilters(ctx, nil, &UpgradeOptions{
		BytesPerSecond: 1, // after the first step it would wait for hours
		Progress:       func(r UpgradeReport) { first = r; cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, first.Upgraded)
	require.Less(t, first.Upgraded, first.Tables)
	require.NoError(t, d.Close())
	d = openTest(t, o)
	second, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Positive(t, second.Current)
	require.Positive(t, second.Upgraded)
	settle(t, d)
	third, err := d.UpgradeFilters(background, nil, nil)
	require.NoError(t, err)
	require.Zero(t, third.Upgraded)
}

func TestAClosingStoreEndsAnUpgrade(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	closing := make(chan error)
	_, err := d.UpgradeFilters(background, nil, &UpgradeOptions{
		BytesPerSecond: 1,
		Progress:       func(UpgradeReport) { go func() { closing <- d.Close() }() },
	})
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, <-closing)
}

func TestUpgradesThatAreRefused(t *testing.T) {
	o := testOptions(vfs.NewMem())
	d := openTest(t, o)
	_, err := d.UpgradeFilters(background, never, nil)
	require.ErrorContains(t, err, "would not read filters")
	_, err = d.UpgradeFilters(background, nil, &UpgradeOptions{BytesPerSecond: -1})
	require.ErrorContains(t, err, "bytes per second")
	require.NoError(t, d.Close())
	_, err = d.UpgradeFilters(background, nil, nil)
	require.ErrorIs(t, err, ErrClosed)
	o.ReadOnly = true
	d = openTest(t, o)
	_, err = d.UpgradeFilters(background, nil, nil)
	require.ErrorIs(t, err, ErrReadOnly)
	_, err = d.UpgradeFilters(background, nil, &UpgradeOptions{DryRun: true})
	require.NoError(t, err)
}

// Reads, writes, flushes and compactions continue while tables are upgraded, back and forth.
func TestUpgradesConcurrentWithWritersAndReaders(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Compaction.MaxConcurrent = 2
	d := openTest(t, o)
	fill(t, d, 0, 1000)
	var done atomic.Bool
	var others sync.WaitGroup
	for w := range 2 {
		others.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for i := 0; !done.Load(); i++ {
				key := testKey(2*rnd.IntN(500) + w) // each its own keys
				want := fmt.Appendf(nil, "%d", i)
				if err := d.Put(key, want, NoSync); err != nil {
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
		r, err := d.UpgradeFilters(background, policy, nil)
		require.NoError(t, err)
		upgraded += r.Upgraded
	}
	done.Store(true)
	others.Wait()
	settle(t, d)
	report, err := d.Check(background)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.NoError(t, strayFilesWhenIdle(d, o.FS))
}

func TestUpgradesLeaveDamagedTablesUnchanged(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	var names []string // one of level 0, one of another
	for _, level := range d.set.Current().Levels {
		if len(level.Files) > 1 {
			names = append(names, filepath.Join("db", level.Files[1].Name()))
		}
	}
	require.Greater(t, len(names), 1)
	require.NoError(t, d.Close())
	for _, name := range names {
		data := readFile(t, mem, name)
		data[100] ^= 1
		writeFile(t, mem, name, data)
	}
	d = openTest(t, o)
	shape := shapeOfLevels(d)
	r, err := d.UpgradeFilters(background, nil, nil)
	require.ErrorIs(t, err, ErrCorruption)
	require.Equal(t, len(names), r.Damaged)
	require.Positive(t, r.Upgraded)
	require.Equal(t, shape, shapeOfLevels(d))
	left := map[string]bool{}
	d.set.Current().Files(func(_ int, f *manifest.FileMeta) { left[filepath.Join("db", f.Name())] = true })
	for _, name := range names {
		require.True(t, left[name], "%s stays", name)
	}
	require.NoError(t, strayFilesWhenIdle(d, o.FS))
}

//make:portable
func TestGoldenDatabasesAreUpgraded(t *testing.T) {
	for _, name := range []string{"leveldb-1.23-levels-filter", "leveldb-1.23-levels-no-filter", "leveldb-1.17-signed-filter", "goleveldb-filter"} {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			d, err := Open(g.copy(t), nil)
			require.NoError(t, err)
			r, err := d.UpgradeFilters(background, nil, nil)
			require.NoError(t, err)
			require.Positive(t, r.Tables)
			require.Equal(t, name != "goleveldb-filter", r.Upgraded > 0,
				"the only table of that one comes from its log")
			require.Zero(t, r.Damaged)
			filters, err := d.Filters(background, 100)
			require.NoError(t, err)
			for _, f := range filters.Tables {
				require.Equal(t, filter.NewCacheLineBloomPolicy(10).Name(), f.Policy)
			}
			g.requireHeldBy(t, d)
			require.NoError(t, d.Close())
		})
	}
}

// Each operation of an upgrade fails once. The store gives the same answers, no files remain, and
// the next call completes the upgrade.
func TestAnErrorAtEveryOperationOfAnUpgrade(t *testing.T) {
	failed := errors.New("injected")
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Tables.Compression = SnappyCompression // otherwise the upgrade begins with reads whose failure is no error
	d := overwritten(t, o, filter.NewBloomPolicy(10))
	want := answers(t, d)
	require.NoError(t, d.Close())
	const none = 1 << 62
	steps, errs, skipped := uint64(none), 0, uint64(40)
	if sampled() {
		skipped = 10
	}
	for at := uint64(none); at <= steps; at += 1 + at/skipped { // from 1 on
		var from, count atomic.Uint64
		from.Store(1 << 62)
		disk := mem.Crash() // a copy: all is synced
		o.FS = wrap.NewFaulty(disk, func(op wrap.Op) *wrap.Fault {
			if op.Index < from.Load() {
				return nil
			}
			if count.Add(1) == at {
				return &wrap.Fault{Err: failed}
			}
			return nil
		})
		d, err := Open("db", o)
		require.NoError(t, err)
		from.Store(0)
		_, err = d.UpgradeFilters(background, nil, nil)
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
		d, err = Open("db", o)
		require.NoError(t, err)
		_, err = d.UpgradeFilters(background, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, answers(t, d), "operation %d", at)
		require.NoError(t, strayFilesWhenIdle(d, disk))
		require.NoError(t, d.Close())
	}
	require.Greater(t, errs, 20)
}

// The power fails at every operation of a run during which tables are upgraded continuously.
func TestCrashesDuringUpgrades(t *testing.T) {
	total, limit := 2000, 1500
	if sampled() {
		total, limit = 1000, 200
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		w := &crashWorkload{seed: seed, keys: 150, upgrades: true}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 2, 3)
		require.Positive(t, w.upgraded)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: w.history(t, trace)}
		start := time.Now()
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash during upgrades", j, start)
	})
}

// A load that is committed during a filter upgrade is newer than the existing tables, in level 0
// too. An upgrade that begins when the load's tables already have their numbers must wait.
func TestLoadsDuringUpgrades(t *testing.T) {
	var atRename atomic.Pointer[func()]
	o := testOptions(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if f := atRename.Load(); f != nil && op.Kind == wrap.OpRename && atRename.CompareAndSwap(f, nil) {
			(*f)()
		}
		return nil
	}))
	o.Compaction.L0Trigger = 100 // loads stay in level 0
	d := openTest(t, o)
	fill(t, d, 0, 100)
	require.NoError(t, d.Flush())
	for round, policy := range []filter.Policy{filter.FusePolicy{}, filter.NewBloomPolicy(10), nil} {
		want := fmt.Appendf(nil, "round %d", round)
		l, err := d.NewLoader()
		require.NoError(t, err)
		for i := range 100 {
			require.NoError(t, l.Put(testKey(i), want))
		}
		upgraded := make(chan error, 1)
		during := func() {
			go func() {
				_, err := d.UpgradeFilters(background, policy, nil)
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
			got, err := d.Get(testKey(i))
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
}
