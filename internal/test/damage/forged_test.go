package damage_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
)

var (
	forgeDatabases = flag.Int("forge.databases", 2000, "number of forged databases to test")
	forgeFirst     = flag.Int("forge.first", 0, "index of the first forged database")
	forgeSeed      = flag.Uint64("forge.seed", 29, "seed of the forged databases")
	forgeSlow      = flag.Duration("forge.slow", time.Second, "processor time that one operation may use")
	forgePrint     = flag.Bool("forge.print", false,
		"print each forged database before it is tested, in case one ends the process")
)

// Everything that reads a database is run on databases whose tables, MANIFEST and logs were forged
// with matching checksums. Nothing may panic, in any goroutine, hang, use more memory or write
// more than the files justify. A repaired database must open and have no faults.
func TestForgedDatabases(t *testing.T) {
	sources := forgedSources(t)
	n := *forgeDatabases
	switch {
	case race.Enabled:
		n = min(n, 100)
	case testing.Short():
		n = min(n, 300)
	}
	counts := map[string]int{}
	for i := *forgeFirst; i < *forgeFirst+n; i++ {
		f := newForgery(t, sources, rand.New(rand.NewPCG(*forgeSeed, uint64(i))))
		if *forgePrint {
			fmt.Printf("%d: %q\n", i, f.changed)
		}
		stop := damage.Watch(fmt.Sprintf("forged database %d of seed %d: %q", i, *forgeSeed, f.changed))
		for _, a := range forgedActions {
			err := f.act(t, i, a)
			outcome := a.name + " done"
			if err != nil {
				outcome = a.name + " refused"
			}
			counts[outcome]++
		}
		stop()
	}
	t.Logf("%d databases: %v", n, counts)
	if n >= 300 {
		require.Len(t, counts, 2*len(forgedActions), "every outcome occurs: %v", counts)
	}
}

// forgedAction is an operation on a forged database.
type forgedAction struct {
	name string
	do   func(o *db.Options) error
	gets int // lookups, each of which may read again an index of 60 MiB that does not decode
}

// maxTime returns the processor time that the action may use.
func (a *forgedAction) maxTime() time.Duration {
	return *forgeSlow + time.Duration(a.gets)*50*time.Millisecond
}

var forgedActions = []forgedAction{
	{name: "reading", do: func(o *db.Options) error { return withForged(o, readForged) }, gets: forgedKeys},
	{name: "Check", do: func(o *db.Options) error {
		return withForged(o, func(d *db.DB) error {
			report, err := d.Check(context.Background())
			if err == nil && len(report.Faults) > 0 {
				return db.ErrCorruption
			}
			return err
		})
	}},
	{name: "Compact", do: func(o *db.Options) error {
		return withForged(o, func(d *db.DB) error { return d.Compact(context.Background(), nil, nil) })
	}},
	{name: "UpgradeFilters", do: func(o *db.Options) error {
		return withForged(o, func(d *db.DB) error {
			if _, err := d.Filters(context.Background(), 50); err != nil && !base.IsUnreadable(err) {
				return err
			}
			_, err := d.UpgradeFilters(context.Background(), nil, nil)
			return err
		})
	}},
	{name: "Repair", do: repairForged, gets: forgedKeys},
}

// act runs a on a copy of the database and checks the outcome. An action that used too much time is
// repeated, because other work of the process may have interfered. One that allocated more in total
// than it may hold at a time is repeated with a measurement of the peak of the heap.
func (f *forgery) act(t *testing.T, number int, a forgedAction) (err error) {
	t.Helper()
	most := damage.MemoryBound(f.image.Size())
	var took time.Duration
	var allocated uint64
	written := func() uint64 { return 0 }
	for range 3 {
		run := func() {
			mem, ferr := f.image.FS("db")
			require.NoError(t, ferr)
			o := f.options
			o.FS, written = countWrites(mem)
			begin := damage.CPUTime()
			err = a.do(&o)
			took = damage.CPUTime() - begin
		}
		before := damage.Allocated()
		run()
		if allocated = damage.Allocated() - before; allocated > most {
			allocated = damage.Peak(run)
		}
		if took <= a.maxTime() && allocated <= most {
			break
		}
	}
	says := fmt.Sprintf("forged database %d of seed %d, %s: %q", number, *forgeSeed, a.name, f.changed)
	if err != nil && !strings.Contains(err.Error(), "was created with comparer") && !strings.Contains(err.Error(), "has another comparer") {
		require.True(t, base.IsUnreadable(err) || errors.Is(err, db.ErrForeign), "%s: %v", says, err) // a forged tag may be RocksDB's
	}
	require.LessOrEqual(t, took, a.maxTime(), says)
	require.LessOrEqual(t, allocated, most, says)
	require.LessOrEqual(t, written(), damage.WriteBound(f.image.Size()), says)
	return err
}

// withForged opens the database, calls use, and closes the database.
func withForged(o *db.Options, use func(*db.DB) error) error {
	d, err := db.Open("db", o)
	if err != nil {
		return err
	}
	err = use(d)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// readForged reads all of a database in every way. The results need not agree, because the files contradict each other.
func readForged(d *db.DB) (err error) {
	note := func(e error) {
		if err == nil && e != nil && e != db.ErrNotFound {
			err = e
		}
	}
	var keys [][]byte
	for i := range forgedKeys + 2 {
		keys = append(keys, fixture.Key(i))
	}
	keys = append(keys, nil, []byte("a"), []byte("z"), []byte("\xff"))
	for _, key := range keys {
		_, e := d.Get(key)
		note(e)
	}
	_, e := d.MultiGet(keys)
	note(e)
	_, e = d.Tables()
	note(e)
	_, e = d.ApproximateSize(fixture.Key(3), fixture.Key(40))
	note(e)
	for _, o := range []*db.IterOptions{nil, {LowerBound: fixture.Key(5), UpperBound: fixture.Key(50)}, db.PrefixBounds(fixture.Key(7))} {
		it, e := d.NewIterator(o)
		note(e)
		if e != nil {
			continue
		}
		for ok := it.First(); ok; ok = it.Next() {
		}
		for ok := it.Last(); ok; ok = it.Prev() {
		}
		for i := 0; i < forgedKeys; i += 9 {
			if it.SeekGE(fixture.Key(i)) && it.Next() && it.Prev() && it.Prev() {
				it.Next()
			}
		}
		note(it.Close())
	}
	return err
}

// repairForged repairs a database. The result must open, be readable and have no fault.
func repairForged(o *db.Options) error {
	if err := db.Repair("db", o); err != nil {
		return err
	}
	return withForged(o, func(d *db.DB) error {
		if err := readForged(d); err != nil {
			return fmt.Errorf("reading the repaired database: %v", err)
		}
		report, err := d.Check(context.Background())
		if err == nil && len(report.Faults) > 0 {
			return fmt.Errorf("the repaired database has faults: %q", report.Faults)
		}
		return err
	})
}

// The bug: if the indexes of its inputs were empty, a compaction that was to be divided panicked,
// because it expected at least one stretch of data. An undivided one dropped all entries.
func TestATableWithEntriesAndAnEmptyIndexIsCorrupt(t *testing.T) {
	s := hostileTable(t, filter.NewBloomPolicy(10), 1000, 500)
	table := s.forge.WithEmptyIndex()
	e := fixture.EmptyEdit()
	e.Added = []version.LevelFile{{Level: 0, File: s.meta(5, table)}}
	im := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": table})
	for _, tableSize := range []int64{4 << 10, 1 << 20} {
		mem, err := im.FS("db")
		require.NoError(t, err)
		o := &db.Options{
			FS: mem, Tables: db.TableOptions{Size: tableSize}, Compaction: db.CompactionOptions{MaxConcurrent: 3},
		}
		d := storetest.MustOpen(t, o)
		require.ErrorIs(t, d.Compact(t.Context(), nil, nil), db.ErrCorruption)
		require.NoError(t, d.Close())
		require.NoError(t, db.Repair("db", o))
		_, err = storetest.Open(t, o).Get(fixture.Key(999))
		require.NoError(t, err, "Repair finds the data blocks without an index")
	}
}
