package db

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/damage"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
)

var (
	forgeDatabases = flag.Int("forge.databases", 2000, "how many forged databases to go through")
	forgeFirst     = flag.Int("forge.first", 0, "the first of them")
	forgeSeed      = flag.Uint64("forge.seed", 29, "their seed")
	forgeSlow      = flag.Duration("forge.slow", time.Second, "how much processor time one operation may take")
	forgePrint     = flag.Bool("forge.print", false, "print each before it is gone through, for when one ends the process")
)

// Databases whose checksums are right and whose tables, MANIFEST and logs were forged, through
// everything that reads them: no panic, in no goroutine, no hang, no memory beyond what the files
// justify. What Repair leaves opens and is sound.
func TestForgedDatabases(t *testing.T) {
	sources := forgedSources(t)
	n := *forgeDatabases
	if raceEnabled {
		n = min(n, 100)
	}
	counts := map[string]int{}
	for i := *forgeFirst; i < *forgeFirst+n; i++ {
		f := newForgery(t, sources, rand.New(rand.NewPCG(*forgeSeed, uint64(i))))
		if *forgePrint {
			fmt.Printf("%d: %q\n", i, f.changed)
		}
		watch := time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprintf("forged database %d of seed %d hangs: %q", i, *forgeSeed, f.changed)) })
		for _, a := range forgedActions {
			err := f.act(t, i, a)
			outcome := a.name + " done"
			if err != nil {
				outcome = a.name + " refused"
			}
			counts[outcome]++
		}
		watch.Stop()
	}
	t.Logf("%d databases: %v", n, counts)
	if n >= 1000 {
		require.Len(t, counts, 2*len(forgedActions), "every outcome occurs: %v", counts)
	}
}

// forgedAction is something that is done to a forged database.
type forgedAction struct {
	name string
	do   func(o *Options) error
	gets int // lookups among it, each of which reads an index of 60 MiB again that does not decode
}

// mayTake returns the processor time that the action may take.
func (a *forgedAction) mayTake() time.Duration {
	return *forgeSlow + time.Duration(a.gets)*50*time.Millisecond
}

var forgedActions = []forgedAction{
	{name: "reading", do: func(o *Options) error { return withForged(o, readForged) }, gets: forgedKeys},
	{name: "Check", do: func(o *Options) error {
		return withForged(o, func(d *DB) error {
			report, err := d.Check(context.Background())
			if err == nil && len(report.Faults) > 0 {
				return ErrCorruption
			}
			return err
		})
	}},
	{name: "Compact", do: func(o *Options) error {
		return withForged(o, func(d *DB) error { return d.Compact(context.Background(), nil, nil) })
	}},
	{name: "UpgradeFilters", do: func(o *Options) error {
		return withForged(o, func(d *DB) error {
			if _, err := d.Filters(context.Background(), 50); err != nil && !errors.Is(err, ErrCorruption) {
				return err
			}
			_, err := d.UpgradeFilters(context.Background(), nil, nil)
			return err
		})
	}},
	{name: "Repair", do: repairForged, gets: forgedKeys},
}

// act does a to a copy of the database, and judges how. What took too long is done again: other
// work of the process may have come between. What allocated more in all than it may hold at
// once is done again with a look at the heap.
func (f *forgery) act(t *testing.T, number int, a forgedAction) (err error) {
	t.Helper()
	most := damage.MemoryBound(f.image.Size())
	var took time.Duration
	var allocated uint64
	for range 3 {
		run := func() {
			mem, ferr := f.image.FS("db")
			require.NoError(t, ferr)
			o := f.options
			o.FS = mem
			begin := damage.CPUTime()
			err = a.do(&o)
			took = damage.CPUTime() - begin
		}
		before := damage.Allocated()
		run()
		if allocated = damage.Allocated() - before; allocated > most {
			allocated = damage.Peak(run)
		}
		if took <= a.mayTake() && allocated <= most {
			break
		}
	}
	says := fmt.Sprintf("forged database %d of seed %d, %s: %q", number, *forgeSeed, a.name, f.changed)
	if err != nil && !strings.Contains(err.Error(), "was created with comparer") {
		require.True(t, errors.Is(err, ErrCorruption) || errors.Is(err, ErrForeign), "%s: %v", says, err) // a tag may be RocksDB's
	}
	require.LessOrEqual(t, took, a.mayTake(), says)
	require.LessOrEqual(t, allocated, most, says)
	return err
}

// withForged opens the database, has it used and closes it.
func withForged(o *Options, use func(*DB) error) error {
	d, err := Open("db", o)
	if err != nil {
		return err
	}
	err = use(d)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// readForged reads all of a database in every way. What one way says need not be what another one
// says: the files contradict themselves.
func readForged(d *DB) (err error) {
	note := func(e error) {
		if err == nil && e != nil && e != ErrNotFound {
			err = e
		}
	}
	var keys [][]byte
	for i := range forgedKeys + 2 {
		keys = append(keys, testKey(i))
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
	_, e = d.ApproximateSize(testKey(3), testKey(40))
	note(e)
	for _, o := range []*IterOptions{nil, {LowerBound: testKey(5), UpperBound: testKey(50)}, PrefixBounds(testKey(7))} {
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
			if it.SeekGE(testKey(i)) && it.Next() && it.Prev() && it.Prev() {
				it.Next()
			}
		}
		note(it.Close())
	}
	return err
}

// repairForged repairs a database. What is left must open, have no fault, and be readable.
func repairForged(o *Options) error {
	if err := Repair("db", o); err != nil {
		return err
	}
	return withForged(o, func(d *DB) error {
		if err := readForged(d); err != nil {
			return fmt.Errorf("reading what was repaired: %v", err)
		}
		report, err := d.Check(context.Background())
		if err == nil && len(report.Faults) > 0 {
			return fmt.Errorf("a check of what was repaired: %q", report.Faults)
		}
		return err
	})
}

// A compaction that would be divided panicked where the indexes of its inputs list nothing: it
// took the first stretch of their data for granted. Undivided, it dropped all that they held.
func TestATableWithEntriesAndAnEmptyIndexIsCorrupt(t *testing.T) {
	forge, meta := hostileTable(t, filter.NewBloomPolicy(10), 1000, 500)
	table := forge.WithEmptyIndex()
	e := hostileEdit()
	e.Added = []manifest.LevelFile{{Level: 0, File: manifest.NewFileMeta(5, uint64(len(table)), meta.Smallest, meta.Largest)}}
	im := hostileImage(t, [][]byte{e.Encode(nil)}, damage.Image{"000005.ldb": table})
	for _, tableSize := range []int64{4 << 10, 1 << 20} {
		mem, err := im.FS("db")
		require.NoError(t, err)
		o := &Options{FS: mem, Tables: TableOptions{Size: tableSize}, Compaction: CompactionOptions{MaxConcurrent: 3}}
		d := mustOpen(t, o)
		require.ErrorIs(t, d.Compact(t.Context(), nil, nil), ErrCorruption)
		require.NoError(t, d.Close())
		require.NoError(t, Repair("db", o))
		_, err = openTest(t, o).Get(testKey(999))
		require.NoError(t, err, "the data blocks are found without an index")
	}
}
