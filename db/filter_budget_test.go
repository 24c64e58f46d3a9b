package db

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/vfs"
)

// budgetKey returns a random key, which is stored if n is even.
func budgetKey(n int) []byte {
	rnd := rand.NewPCG(uint64(n), 7)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rnd.Uint64()), rnd.Uint64())
}

// budgetOptions returns options with which few keys fill levels that grow tenfold.
func budgetOptions(fs vfs.FS) *Options {
	return &Options{
		FS: fs, Memtables: MemtableOptions{Size: 8 << 10},
		Tables:     TableOptions{Size: 16 << 10, BlockSize: 1 << 10, Compression: NoCompression},
		Compaction: CompactionOptions{MaxLevelBase: 4 << 10},
		Cache:      CacheOptions{MaxOpenFiles: 10000},
		Filters:    FilterOptions{Policy: filter.NewCacheLineBloomPolicy(10)}, // not the default, which has more bits above the last level
	}
}

// grown returns a settled store of n keys. It settles the store after each memtable, so the levels do
// not depend on time.
func grown(t *testing.T, o *Options, n int) *DB {
	d, err := Open("db", o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	for i := range n {
		require.NoError(t, d.Put(budgetKey(2*i), []byte("value"), NoSync))
		if i%100 == 99 { // before the memtable is full
			settle(t, d)
		}
	}
	settle(t, d)
	return d
}

// wasted makes probes lookups of absent keys. It returns the wasted reads per lookup, as counted by
// the store, and the bytes of the filters.
func wasted(t testing.TB, d *DB, probes int) (reads float64, filterBytes uint64) {
	_, err := d.Tables() // also opens tables that no probe reaches
	require.NoError(t, err)
	before := d.Metrics().Total()
	for i := range probes {
		_, err := d.Get(budgetKey(2*i + 1))
		require.ErrorIs(t, err, ErrNotFound)
	}
	m := d.Metrics()
	after := m.Total()
	require.Equal(t, after.Tables, m.Tables.Open)
	wastedReads := after.Reads - after.FilterNegatives - after.FilterTruePositives
	wastedReads -= before.Reads - before.FilterNegatives - before.FilterTruePositives
	return float64(wastedReads) / float64(probes), m.Tables.FilterBytes
}

func TestABudgetHalvesTheWastedReadsOfFourLevels(t *testing.T) {
	skipInShortRace(t)
	const n, probes = 100300, 60000 // the last 300 keys are on level 0
	uniform := grown(t, budgetOptions(vfs.NewMem()), n)
	require.GreaterOrEqual(t, occupiedLevels(uniform), 4)
	wantReads, memory := wasted(t, uniform, probes)

	o := budgetOptions(vfs.NewMem())
	o.Filters.Budget = int64(memory) * 95 / 100 // tables written while the tree was smaller have slightly larger filters
	d := grown(t, o, n)
	require.GreaterOrEqual(t, occupiedLevels(d), 4)
	reads, bytes := wasted(t, d, probes)
	t.Logf("ten bits everywhere: %.4f wasted reads with %d bytes; budget: %.4f with %d", wantReads, memory, reads, bytes)
	logLevels(t, d)
	require.LessOrEqual(t, reads, wantReads/2)
	require.LessOrEqual(t, bytes, memory)
	require.GreaterOrEqual(t, float64(bytes), 0.9*float64(memory), "the budget is used")

	requireNoFaults(t, d)
	require.NoError(t, d.Close())
	o.Filters.Budget = 0
	requireNoFaults(t, openTest(t, o)) // reading needs no budget
}

func logLevels(t *testing.T, d *DB) {
	for _, l := range filtersOf(t, d, 0).Levels {
		t.Logf("level %d: %d tables, %d keys, %.1f bits", l.Level, l.Tables, l.Keys, l.BitsPerKey)
	}
}

func requireNoFaults(t *testing.T, d *DB) {
	t.Helper()
	checked, err := d.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, checked.Faults)
}

func TestWastedReadsStayBelowTheBound(t *testing.T) {
	skipInShortRace(t)
	const n, probes, bound = 30300, 60000, 0.03
	for _, c := range []struct {
		name   string
		policy filter.Policy
	}{{"both filters", nil}, {"LevelDB's filters", filter.NewBloomPolicy(1)}} {
		t.Run(c.name, func(t *testing.T) {
			o := budgetOptions(vfs.NewMem())
			o.Filters.Policy, o.Filters.MaxWastedReads = c.policy, bound
			d := grown(t, o, n)
			reads, _ := wasted(t, d, probes)
			logLevels(t, d)
			require.LessOrEqual(t, reads, 1.2*bound,
				"LevelDB's hash has a higher false-positive rate than an ideal one")
			require.GreaterOrEqual(t, reads, bound/4, "no memory is used beyond what the bound needs")
			requireNoFaults(t, d)
		})
	}
}

// Tables that compactions move without rewriting them keep the filters that they had on level 0.
func TestABudgetBoundsTheFiltersOfTablesThatAreNeverRewritten(t *testing.T) {
	skipInShortRace(t)
	o := budgetOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Filters.Budget = 64<<10, 64<<10, 24<<10
	d := openTest(t, o)
	for i := range 60000 { // in order; ten bits a key would be 73 KiB
		require.NoError(t, d.Put(testKey(i), []byte("value"), NoSync))
		if i%1000 == 999 {
			settle(t, d)
		}
	}
	_, err := d.Tables()
	require.NoError(t, err)
	m := d.Metrics()
	logLevels(t, d)
	require.Greater(t, m.Compactions.TrivialMoves, uint64(30))
	require.LessOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget*5/4))
	requireNoFaults(t, d)

	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err = d.Tables()
	require.NoError(t, err)
	m = d.Metrics()
	require.LessOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget*21/20))
	require.GreaterOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget/2),
		"tables that had no filter have one; a part is reserved for level 0")
}

func TestABudgetCountsExistingTables(t *testing.T) {
	skipInShortRace(t)
	fsys := vfs.NewMem()
	o := budgetOptions(fsys)
	o.Tables.Size = 64 << 10
	d := grown(t, o, 40000)
	require.NoError(t, d.Close())
	o.Filters.Budget = 20000 // four bits a key
	d = openTest(t, o)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.Tables()
	require.NoError(t, err)
	logLevels(t, d)
	require.InEpsilon(t, o.Filters.Budget, d.Metrics().Tables.FilterBytes, 0.1)
	requireNoFaults(t, d)
}

func TestABudgetOnDirectoriesOfOtherPrograms(t *testing.T) {
	for _, name := range []string{"leveldb-1.23-levels-filter", "leveldb-1.23-levels-no-filter", "goleveldb-filter"} {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			dir := g.copy(t)
			d, err := Open(dir, &Options{Comparer: g.cmp, Filters: FilterOptions{Budget: 1 << 20}})
			require.NoError(t, err)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			g.requireHeldBy(t, d)
			for _, f := range filtersOf(t, d, 100).Tables {
				require.Greater(t, f.BitsPerKey, 15.0, "the budget has room")
			}
			require.NoError(t, d.Close())
		})
	}
}

func TestFilterBitsAreRightOnAverage(t *testing.T) {
	for _, bits := range []float64{0, 0.3, 1, 9.5, 9.99, 20} {
		var sum float64
		for num := range uint64(1000) {
			p := filterplan.Bits(bits).Policy(filter.NewDualBloomPolicy(3), num+12345)
			if p == filter.None {
				continue
			}
			b := p.(filter.BloomPolicy)
			require.Len(t, filter.Kinds(p), 2)
			require.InDelta(t, bits, b.BitsPerKey(), 1)
			sum += float64(b.BitsPerKey())
		}
		require.InDelta(t, bits, sum/1000, 0.005)
	}
}

func TestInvalidBudgetsAreRefused(t *testing.T) {
	cases := []struct {
		name string
		o    Options
		want string
	}{
		{"two budgets", Options{Filters: FilterOptions{Budget: 1, MaxWastedReads: 0.5}}, "exclude"},
		{"a negative budget", Options{Filters: FilterOptions{Budget: -1}}, "Filters.Budget is -1"},
		{"a negative number of reads", Options{Filters: FilterOptions{MaxWastedReads: -0.1}}, "Filters.MaxWastedReads is -0.1"},
		{"not a number", Options{Filters: FilterOptions{MaxWastedReads: math.NaN()}}, "below 1"},
		{"infinitely many reads", Options{Filters: FilterOptions{MaxWastedReads: math.Inf(1)}}, "below 1"},
		{"as many reads as without filters", Options{Filters: FilterOptions{MaxWastedReads: 1}}, "below 1"},
		{"a percentage", Options{Filters: FilterOptions{MaxWastedReads: 2}}, "Filters.MaxWastedReads is 2; it must be 0"},
		{"no filters", Options{Filters: FilterOptions{Budget: 1, Policy: filter.None}}, "BloomPolicy"},
		{"filters without bits", Options{Filters: FilterOptions{MaxWastedReads: 0.5, Policy: filter.FusePolicy{}}}, "BloomPolicy"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, c.o.Validate(), c.want)
		})
	}
}
