package compact_test

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

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// shapeOfLevels returns the bounds of the tables of each level, in the level's order.
func shapeOfLevels(t testing.TB, d *db.DB) (shape [][]string) {
	shape = make([][]string, db.NumLevels)
	files := result.Of(d.Tables())(t)
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

			plan := result.Of(d.UpgradeFilters(context.Background(), nil, &db.UpgradeOptions{DryRun: true}))(t)
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
			filters := result.Of(d.Filters(context.Background(), 200))(t)
			for _, f := range filters.Tables {
				require.Equal(t, tc.policy, f.Policy)
				require.Equal(t, "whole table", f.Layout)
				require.Zero(t, f.Probes.Denied)
			}
			report := result.Of(d.Check(context.Background()))(t)
			require.Empty(t, report.Faults)
			require.NoError(t, storetest.StrayFilesWhenIdle(d, o.FS))

			again := result.Of(d.UpgradeFilters(context.Background(), nil, nil))(t)
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
	require.NoError(t, result.Err(d.UpgradeFilters(context.Background(), nil, nil)))
	after, bytes := storetest.Wasted(t, d, 20000)
	t.Logf("%.4f wasted reads with %d bytes of filters before, %.4f with %d after", before, memory, after, bytes)
	require.LessOrEqual(t, after, before/2)
	require.LessOrEqual(t, bytes, memory+memory/20, "tables that compactions wrote meanwhile count as well")
	again := result.Of(d.UpgradeFilters(context.Background(), nil, nil))(t)
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
		r := result.Of(d.UpgradeFilters(context.Background(), policy, nil))(t)
		upgraded += r.Upgraded
	}
	done.Store(true)
	others.Wait()
	storetest.Settle(t, d)
	report := result.Of(d.Check(context.Background()))(t)
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
		d := result.Of(db.Open("db", o))(t)
		from.Store(0)
		_, err := d.UpgradeFilters(context.Background(), nil, nil)
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
		d = result.Of(db.Open("db", o))(t)
		require.NoError(t, result.Err(d.UpgradeFilters(context.Background(), nil, nil)))
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
			got := result.Of(d.Get(fixture.Key(i)))(t)
			require.Equal(t, string(want), string(got))
		}
	}
}

// Tables that were written with the wanted filters, or without any if the policy has none, gain
// nothing. An upgrade that copied them would copy the whole store each time.
func TestTablesThatHaveTheirFiltersAreLeftAlone(t *testing.T) {
	ranges := []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(2), 10)}
	for name, o := range map[string]*db.Options{
		"no filters":                       {Filters: db.FilterOptions{Policy: filter.None}},
		"range filters alone":              {Filters: db.FilterOptions{Policy: filter.None, RangePolicies: ranges}},
		"a bound that needs no filter":     {Filters: db.FilterOptions{Policy: filter.NewBloomPolicy(10), MaxWastedReads: 0.9999999}},
		"the old name, hashed in two ways": {Filters: db.FilterOptions{Policy: filter.LegacyBloom}},
		"the old name with cache lines": {
			Filters: db.FilterOptions{Policy: filter.Several(filter.NewCacheLineBloomPolicy(10), filter.LegacyBloom)},
		},
		"binary fuse": {Filters: db.FilterOptions{Policy: filter.FusePolicy{}}},
		"packed fuse": {Filters: db.FilterOptions{Policy: filter.Several(filter.NewFusePolicy(7), filter.NewBloomPolicy(10))}},
	} {
		t.Run(name, func(t *testing.T) {
			o.FS = vfs.NewMem()
			d := storetest.Open(t, o)
			for i := range 200 {
				// The length is no multiple of four and the last byte is 0x80 or more, so signed
				// and unsigned characters have different hashes.
				require.NoError(t, d.Put([]byte{'k', byte(i / 8), byte(i), 0, byte(i) | 0x80}, []byte("value"), db.NoSync))
			}
			require.NoError(t, d.Flush())
			r := result.Of(d.UpgradeFilters(context.Background(), nil, nil))(t)
			require.Positive(t, r.Tables)
			if o.Filters.MaxWastedReads > 0 { // a flush leaves room for future tables
				r = result.Of(d.UpgradeFilters(context.Background(), nil, nil))(t)
			}
			require.Zero(t, r.Upgraded)
			require.Equal(t, r.Tables, r.Current)
		})
	}
}

// sideBySide returns a file system in which, after begin, no table is written to before two of them are created.
func sideBySide(t *testing.T, fsys vfs.FS) (gated vfs.FS, begin func()) {
	var begun atomic.Bool
	var created atomic.Int64
	two := make(chan struct{})
	gated = wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		if !begun.Load() || filepath.Ext(op.Name) != ".ldb" {
			return nil
		}
		switch op.Kind {
		case wrap.OpCreate:
			if created.Add(1) == 2 {
				close(two)
			}
		case wrap.OpWrite:
			select {
			case <-two:
			case <-time.After(time.Minute):
				t.Error("no second table was created next to the first")
			}
		}
		return nil
	})
	return gated, func() { begun.Store(true) }
}

// smallTables returns options of a store of many small tables with small filters, which compacts only on request.
func smallTables(fsys vfs.FS) *db.Options {
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 512, Compression: db.NoCompression},
		Compaction: db.CompactionOptions{MaxLevelBase: 16 << 10, L0Trigger: 100},
		Cache:      db.CacheOptions{Size: 64 << 10, MaxOpenFiles: 20}, Filters: db.FilterOptions{Policy: filter.NewBloomPolicy(4)},
	}
}

// longValue returns values of which some hundred fill more tables than one step has.
func longValue(i int) []byte { return append(fixture.Value(i), make([]byte, 1100)...) }

// twiceFilled returns a store with tables of the same keys in level 0
// and on a level below.
func twiceFilled(t *testing.T, fsys vfs.FS, keys int) *db.DB {
	d, err := db.Open("db", smallTables(fsys)) // an order checker would hide the files' ShareFrom
	require.NoError(t, err)
	for i := range keys {
		require.NoError(t, d.Put(fixture.Key(i), longValue(i), db.NoSync))
	}
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	for i := 0; i < keys; i += 2 {
		require.NoError(t, d.Put(fixture.Key(i), []byte("newer"), db.NoSync))
		if i%(keys/4) == keys/4-2 {
			require.NoError(t, d.Flush())
		}
	}
	return d
}

func checkTwiceFilled(d *db.DB, keys int) error {
	for i := range keys {
		want := longValue(i)
		if i%2 == 0 {
			want = []byte("newer")
		}
		if got, err := d.Get(fixture.Key(i)); err != nil || !bytes.Equal(got, want) {
			return errors.Join(fmt.Errorf("key %d is %q, want %q", i, got, want), err)
		}
	}
	return nil
}

// sharingFS is a file system whose files share bytes with others, in units of 64.
type sharingFS struct {
	vfs.FS
	shared atomic.Int64 // bytes
}

type sharingFile struct {
	vfs.File
	fs *sharingFS
}

func (s *sharingFS) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return &sharingFile{f, s}, err
}

// ShareFrom is a write for the file systems below, so the shared bytes are durable after Sync.
func (f *sharingFile) ShareFrom(src vfs.File, n int64) (int64, error) {
	data := make([]byte, n/64*64)
	if _, err := src.ReadAt(data, 0); err != nil {
		return 0, err
	}
	_, err := f.Write(data)
	f.fs.shared.Add(int64(len(data)))
	return int64(len(data)), err
}

// The power fails at every operation of an upgrade that copies tables concurrently. No key is lost
// or has an old value, and the next upgrade continues from there.
func TestCrashAtEveryOperationOfConcurrentTableCopies(t *testing.T) {
	t.Run("copied", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := sideBySide(t, r)
		crashSideBySide(t, r, gated, begin)
	})
	t.Run("shared", func(t *testing.T) {
		r := recorder.New(recorder.Image{})
		gated, begin := sideBySide(t, r)
		sharing := &sharingFS{FS: gated}
		crashSideBySide(t, r, sharing, begin)
		require.Positive(t, sharing.shared.Load())
	})
}

// crashSideBySide upgrades a store on fsys, which writes to r, and judges the files after each cut.
func crashSideBySide(t *testing.T, r *recorder.FS, fsys vfs.FS, begin func()) {
	const keys = 80
	d := twiceFilled(t, fsys, keys)
	shape := shapeOfLevels(t, d)
	require.Greater(t, len(shape[0]), 3)
	from := len(r.Trace().Ops)
	begin()
	steps := 0
	report, err := d.UpgradeFilters(context.Background(), filter.NewBloomPolicy(20),
		&db.UpgradeOptions{Progress: func(db.UpgradeReport) { steps++ }})
	require.NoError(t, err)
	require.GreaterOrEqual(t, steps, 3, "level 0, and two steps below")
	require.Equal(t, report.Tables, report.Upgraded)
	require.Equal(t, shape, shapeOfLevels(t, d))
	require.NoError(t, d.Close())

	var again, upgraded atomic.Int64
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		o := smallTables(mem)
		o.Filters.Policy = filter.NewBloomPolicy(20)
		d, err := db.Open("db", o)
		if err != nil {
			if m == recorder.M4 && errors.Is(err, db.ErrCorruption) {
				return nil
			}
			return err
		}
		err = checkTwiceFilled(d, keys)
		if cut%3 != 0 { // the second upgrade takes as long again
			return errors.Join(err, storetest.StrayFilesWhenIdle(d, mem), d.Close())
		}
		if r, uerr := d.UpgradeFilters(context.Background(), nil, nil); uerr != nil || r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("upgraded again: %+v: %w", r, uerr))
		} else if again.Add(1); r.Current > 0 {
			upgraded.Add(1)
		}
		return errors.Join(err, checkTwiceFilled(d, keys), storetest.StrayFilesWhenIdle(d, mem), d.Close())
	}
	limit := 0
	if race.Sampled() {
		limit = 200
	}
	n, err := cuts.EachState(r.Trace(), cuts.Models(t), 1, limit, judge)
	cuts.RequireNoFailure(t, err)
	require.Less(t, upgraded.Load(), again.Load(), "cuts before the first edit")
	require.Positive(t, upgraded.Load(), "cuts after it")
	t.Logf("%d tables, %d states, in %d of them some tables were upgraded", report.Tables, n, upgraded.Load())
}
