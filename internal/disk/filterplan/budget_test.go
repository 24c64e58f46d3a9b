package filterplan_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func TestABudgetHalvesTheWastedReadsOfFourLevels(t *testing.T) {
	race.SkipInShort(t)
	const n, probes = 100300, 20000 // the last 300 keys are on level 0
	uniform := storetest.Grown(t, storetest.BudgetOptions(vfs.NewMem()), n)
	require.GreaterOrEqual(t, storetest.OccupiedLevels(uniform), 4)
	wantReads, memory := storetest.Wasted(t, uniform, probes)

	o := storetest.BudgetOptions(vfs.NewMem())
	o.Filters.Budget = int64(memory) * 95 / 100 // tables written while the tree was smaller have slightly larger filters
	d := storetest.Grown(t, o, n)
	require.GreaterOrEqual(t, storetest.OccupiedLevels(d), 4)
	reads, bytes := storetest.Wasted(t, d, probes)
	t.Logf("ten bits everywhere: %.4f wasted reads with %d bytes; budget: %.4f with %d", wantReads, memory, reads, bytes)
	logLevels(t, d)
	require.LessOrEqual(t, reads, wantReads/2)
	require.LessOrEqual(t, bytes, memory)
	require.GreaterOrEqual(t, float64(bytes), 0.9*float64(memory), "the budget is used")

	storetest.RequireNoFaults(t, d)
	require.NoError(t, d.Close())
	o.Filters.Budget = 0
	storetest.RequireNoFaults(t, storetest.Open(t, o)) // reading needs no budget
}

func logLevels(t *testing.T, d *db.DB) {
	for _, l := range storetest.Filters(t, d, 0).Levels {
		t.Logf("level %d: %d tables, %d keys, %.1f bits", l.Level, l.Tables, l.Keys, l.BitsPerKey)
	}
}

func TestWastedReadsStayBelowTheBound(t *testing.T) {
	race.SkipInShort(t)
	const n, probes, bound = 30300, 20000, 0.03
	for _, c := range []struct {
		name   string
		policy filter.Policy
	}{{"both filters", nil}, {"LevelDB's filters", filter.NewBloomPolicy(1)}, {"binary fuse", filter.FusePolicy{}}} {
		t.Run(c.name, func(t *testing.T) {
			o := storetest.BudgetOptions(vfs.NewMem())
			o.Filters.Policy, o.Filters.MaxWastedReads = c.policy, bound
			d := storetest.Grown(t, o, n)
			reads, _ := storetest.Wasted(t, d, probes)
			logLevels(t, d)
			require.LessOrEqual(t, reads, 1.2*bound,
				"LevelDB's hash has a higher false-positive rate than an ideal one")
			require.GreaterOrEqual(t, reads, bound/4, "no memory is used beyond what the bound needs")
			storetest.RequireNoFaults(t, d)
		})
	}
}

// Tables that compactions move without rewriting them keep the filters that they had on level 0.
func TestABudgetBoundsTheFiltersOfTablesThatAreNeverRewritten(t *testing.T) {
	race.SkipInShort(t)
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Filters.Budget = 64<<10, 64<<10, 24<<10
	d := storetest.Open(t, o)
	for i := range 60000 { // in order; ten bits a key would be 73 KiB
		require.NoError(t, d.Put(fixture.Key(i), []byte("value"), db.NoSync))
		if i%1000 == 999 {
			storetest.Settle(t, d)
		}
	}
	_, err := d.Tables()
	require.NoError(t, err)
	m := d.Metrics()
	logLevels(t, d)
	require.Greater(t, m.Compactions.TrivialMoves, uint64(30))
	require.LessOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget))
	storetest.RequireNoFaults(t, d)

	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err = d.Tables()
	require.NoError(t, err)
	m = d.Metrics()
	require.LessOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget))
	require.GreaterOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget*3/4), "tables that had no filter have one")
}

// Memtables are a large part of the store: a plan that leaves room for those on level 0 leaves half of the budget.
func TestCompactUsesTheBudgetAndAGrowingStoreKeepsIt(t *testing.T) {
	race.SkipInShort(t)
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Filters.Budget = 256<<10, 128<<10, 40_000 // eight bits for 40,000 keys
	d := storetest.Open(t, o)
	used := func() float64 {
		_, err := d.Tables()
		require.NoError(t, err)
		return float64(d.Metrics().Tables.FilterBytes) / float64(o.Filters.Budget)
	}
	for i := range 80_000 {
		require.NoError(t, d.Put(storetest.BudgetKey(2*i), []byte("value"), db.NoSync))
		if i%500 == 499 {
			require.LessOrEqual(t, used(), 1.0, "%d keys", i+1)
		}
		if i%20_000 == 19_999 {
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			require.LessOrEqual(t, used(), 1.0, "%d keys", i+1)
			require.GreaterOrEqual(t, used(), 0.9, "%d keys", i+1)
			logLevels(t, d)
			r, err := d.UpgradeFilters(t.Context(), nil, nil)
			require.NoError(t, err)
			require.Zero(t, r.Upgraded, "the filters are up to date")
		}
	}
	storetest.RequireNoFaults(t, d)
}

func TestABudgetCountsExistingTables(t *testing.T) {
	race.SkipInShort(t)
	fsys := vfs.NewMem()
	o := storetest.BudgetOptions(fsys)
	o.Tables.Size = 64 << 10
	d := storetest.Grown(t, o, 40000)
	require.NoError(t, d.Close())
	o.Filters.Budget = 20000 // four bits a key
	d = storetest.Open(t, o)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	_, err := d.Tables()
	require.NoError(t, err)
	logLevels(t, d)
	require.InEpsilon(t, o.Filters.Budget, d.Metrics().Tables.FilterBytes, 0.1)
	storetest.RequireNoFaults(t, d)
}

func TestFilterBitsAreRightOnAverage(t *testing.T) {
	const tables = 10_000
	for _, bits := range []float64{0, 0.3, 1, 9.25, 9.99, 12.5, 14.9, 20} {
		var sum float64
		for num := range uint64(tables) {
			p := filterplan.Bits(bits).Policy(filter.NewDualBloomPolicy(3), num+12345)
			if p == filter.None {
				continue
			}
			b := p.(filter.BloomPolicy)
			require.Len(t, filter.Kinds(p), 2)
			require.InDelta(t, bits, b.BitsPerKey(), 1)
			sum += float64(b.BitsPerKey())
		}
		require.InDelta(t, bits, sum/tables, 0.002, "%v bits", bits)
	}
}

func TestInvalidBudgetsAreRefused(t *testing.T) {
	cases := []struct {
		name string
		o    db.Options
		want string
	}{
		{"two budgets", db.Options{Filters: db.FilterOptions{Budget: 1, MaxWastedReads: 0.5}}, "exclude"},
		{"a negative budget", db.Options{Filters: db.FilterOptions{Budget: -1}}, "Filters.Budget is -1"},
		{"a negative number of reads", db.Options{Filters: db.FilterOptions{MaxWastedReads: -0.1}}, "Filters.MaxWastedReads is -0.1"},
		{"not a number", db.Options{Filters: db.FilterOptions{MaxWastedReads: math.NaN()}}, "below 1"},
		{"infinitely many reads", db.Options{Filters: db.FilterOptions{MaxWastedReads: math.Inf(1)}}, "below 1"},
		{"as many reads as without filters", db.Options{Filters: db.FilterOptions{MaxWastedReads: 1}}, "below 1"},
		{"a percentage", db.Options{Filters: db.FilterOptions{MaxWastedReads: 2}}, "Filters.MaxWastedReads is 2; it must be 0"},
		{"no filters", db.Options{Filters: db.FilterOptions{Budget: 1, Policy: filter.None}}, "BloomPolicy"},
		{"filters without bits", db.Options{Filters: db.FilterOptions{MaxWastedReads: 0.5, Policy: filter.LegacyBloom}}, "BloomPolicy"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, c.o.Validate(), c.want)
		})
	}
}
