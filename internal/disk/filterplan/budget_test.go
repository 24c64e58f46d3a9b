package filterplan_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
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
	require.NoError(t, result.Err(d.Tables()))
	m := d.Metrics()
	logLevels(t, d)
	require.Greater(t, m.Compactions.TrivialMoves, uint64(30))
	require.LessOrEqual(t, m.Tables.FilterBytes, uint64(o.Filters.Budget))
	storetest.RequireNoFaults(t, d)

	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.NoError(t, result.Err(d.Tables()))
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
		require.NoError(t, result.Err(d.Tables()))
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
			r := result.Of(d.UpgradeFilters(t.Context(), nil, nil))(t)
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
	require.NoError(t, result.Err(d.Tables()))
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

// growth has the memory and the wasted reads of a growing store under a budget at one size.
type growth struct {
	keys   int
	memory float64 // as a fraction of the budget
	wasted float64 // reads per absent key
	// optimum are the reads wasted by the best division of the budget over the same levels, and uniform
	// those wasted by the same bits for every key, as many as the filters have together.
	optimum, uniform float64
	levels           string
}

// growUnderBudget fills a store with n keys in random order, under a budget of ten bits per key. From
// 10,000 keys on, it measures the store whenever it has grown by half.
func growUnderBudget(t testing.TB, n, probes int, seen func(growth)) *db.DB {
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 32<<10, 32<<10, 32<<10
	o.Filters.Budget = int64(n) * 10 / 8
	d := storetest.Open(t, o)
	next := 10000
	for i := range n {
		require.NoError(t, d.Put(storetest.BudgetKey(2*i), []byte("value"), db.NoSync))
		if i%200 == 199 { // before the memtable is full, so that the levels do not depend on time
			storetest.Settle(t, d)
		}
		if i+1 == next || i+1 == n {
			storetest.Settle(t, d)
			seen(measureGrowth(t, d, i+1, probes))
			next = next * 3 / 2
		}
	}
	return d
}

func measureGrowth(t testing.TB, d *db.DB, keys, probes int) growth {
	reads, bytes := storetest.Wasted(t, d, probes)
	r := result.Of(d.Filters(t.Context(), 0))(t)
	loads, same := make([]filter.LevelLoad, db.NumLevels), make([]float64, db.NumLevels)
	var levels []string
	for _, l := range r.Levels {
		loads[l.Level] = filter.LevelLoad{Keys: float64(l.Keys), Weight: 1}
		if l.Level == 0 {
			loads[0].Weight = float64(l.Tables)
		}
		same[l.Level] = 8 * float64(bytes) / float64(keys)
		levels = append(levels, fmt.Sprintf("level %d %.1f", l.Level, l.BitsPerKey))
	}
	o := d.Options()
	plan := filterplan.Options{
		Filter: o.Filters.Policy, Budget: o.Filters.Budget, WriteBufferSize: o.Memtables.Size, MaxLevelBase: o.Compaction.MaxLevelBase,
		L0CompactionTrigger: 4, // the default
	}
	curve, _ := plan.Curve()
	best := curve.Allocate(loads, 8*float64(o.Filters.Budget))
	return growth{
		keys: keys, memory: float64(bytes) / float64(o.Filters.Budget),
		wasted: reads, optimum: curve.Wasted(loads, best), uniform: curve.Wasted(loads, same),
		levels: strings.Join(levels, ", "),
	}
}

func (g growth) String() string {
	return fmt.Sprintf("%7d keys: %3.0f %% of the budget, %.5f reads wasted, %.2f times the optimum, %.2f times uniform bits; bits: %s",
		g.keys, 100*g.memory, g.wasted, g.wasted/g.optimum, g.wasted/g.uniform, g.levels)
}

// Tables that were written while the store was small have bits that later tables need.
func TestAGrowingStoreKeepsItsBudgetAndWastesLittle(t *testing.T) {
	race.SkipInShort(t)
	const probes = 20000
	var last growth
	d := growUnderBudget(t, 60000, probes, func(g growth) {
		t.Log(g)
		require.LessOrEqual(t, g.memory, 1.0)
		chance := 4 * math.Sqrt(g.optimum/probes)
		require.LessOrEqual(t, g.wasted, 1.5*g.optimum+chance)
		last = g
	})
	require.Greater(t, last.memory, 0.9, "the budget is used")
	require.Less(t, last.wasted, 0.7*last.uniform)
	storetest.RequireNoFaults(t, d)
}

// The bug: a busy writer leaves many tables on level 0, and the compaction of them counted them twice,
// among its outputs and among the tables that level 0 keeps.
func TestTablesThatLeaveLevel0FreeTheirPartOfTheBudget(t *testing.T) {
	const n, tables = 6000, 20
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 64<<10, 64<<10, 64<<10
	o.Filters.Budget, o.Compaction.L0Trigger = n*10/8, 2
	d := storetest.Open(t, o)
	resume := result.Of(d.PauseCompactions(t.Context()))(t)
	for i := range n {
		require.NoError(t, d.Put(storetest.BudgetKey(2*i), []byte("value"), db.NoSync))
		if (i+1)%(n/tables) == 0 {
			require.NoError(t, d.Flush())
		}
	}
	require.Equal(t, tables, d.Metrics().Levels[0].Tables)
	resume()
	storetest.Settle(t, d)
	levels := storetest.Filters(t, d, 1).Levels
	require.Len(t, levels, 1)
	require.EqualValues(t, n, levels[0].Keys)
	require.Greater(t, levels[0].BitsPerKey, 7.0, "of ten bits, some are reserved for two tables on level 0")
}

// The bug: the budget ignored the memory of range filters.
func TestRangeFiltersCountTowardsTheBudget(t *testing.T) {
	const n = 20000
	cases := []struct {
		name   string
		budget int64
		most   float64 // bits per key of the point filters
		least  float64
	}{
		{"half is for keys", n * 20 / 8, 10, 6},
		{"nothing is left for keys", n * 5 / 8, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := storetest.BudgetOptions(vfs.NewMem())
			o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 64<<10, 64<<10, 64<<10
			o.Filters.Budget = c.budget
			o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewGrafite(rangefilter.FixedPrefix(0), rangefilter.BigEndian(8), 10)}
			d := storetest.Grown(t, o, n)
			checkRanges := func() {
				require.NoError(t, result.Err(d.Tables()))
				m := d.Metrics()
				require.InEpsilon(t, n*10/8, m.Tables.RangeFilterBytes, 0.2)
				bits := 8 * float64(m.Tables.FilterBytes) / n
				require.LessOrEqual(t, bits, c.most)
				require.GreaterOrEqual(t, bits, c.least)
			}
			checkRanges()
			require.NoError(t, result.Err(d.UpgradeFilters(t.Context(), nil, nil)))
			checkRanges()
			require.NoError(t, d.Close())
			d = storetest.Open(t, o)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			checkRanges()
		})
	}
}

func BenchmarkAGrowingStoreUnderABudget(b *testing.B) {
	for b.Loop() {
		growUnderBudget(b, 2e6, 100000, func(g growth) {
			if g.memory > 0.5 { // below that, all tables have as many bits as are of use
				b.Log(g)
			}
		})
	}
}

func TestAPlanHasAllKeysAndUsesTheMemory(t *testing.T) {
	for _, keys := range []uint64{1, 1000, 100000, 1e6, 1e9, 1e12} {
		for _, bits := range []uint64{0, 1, 10, 20, 50} {
			t.Run(fmt.Sprintf("%d keys, %d bits", keys, bits), func(t *testing.T) {
				var o *db.Options
				p := result.Of(o.PlanFilters(keys, 116, keys*bits/8))(t)
				var sum, uniform, solved, last float64
				for _, l := range p.Levels {
					require.GreaterOrEqual(t, l.Keys, 0.0)
					sum += l.Keys
					uniform += l.Keys * l.UniformBits / 8
					solved += l.Keys * l.SolvedBits / 8
					require.True(t, l.SolvedRate >= 0 && l.SolvedRate <= 1)
					if l.Level > 1 && last > 0 {
						require.InEpsilon(t, 10, l.Keys/last, 0.01)
					}
					if last = l.Keys; l.Level == 0 {
						last = 0
					}
				}
				require.InEpsilon(t, float64(keys), sum, 1e-9)
				require.InDelta(t, p.At.Bytes, uniform, 1e-6*p.At.Bytes)
				require.InDelta(t, p.At.Bytes, solved, 1e-6*p.At.Bytes)
				require.LessOrEqual(t, p.At.Bytes, float64(keys*bits/8)+1e-6)
				require.True(t, bits < 50 || keys < 10 || p.At.Bytes < float64(keys*25/8), "more than some 20 bits would gain nothing")
				require.Len(t, p.Curve, 21)
				before := p.Curve[0]
				for _, m := range p.Curve {
					require.LessOrEqual(t, m.Solved.Miss, m.Uniform.Miss+1e-12)
					require.LessOrEqual(t, m.Solved.Miss, before.Solved.Miss)
					require.LessOrEqual(t, m.Uniform.Hit, before.Uniform.Hit)
					require.GreaterOrEqual(t, m.Solved.Hit, 1.0)
					before = m
				}
			})
		}
	}
}

func TestPlansOfLargeDatabasesHalveTheWastedReads(t *testing.T) {
	for _, keys := range []uint64{1e8, 1e10, 1e12} {
		p := result.Of((&db.Options{}).PlanFilters(keys, 116, keys*10/8))(t)
		require.GreaterOrEqual(t, len(p.Levels), 4)
		require.LessOrEqual(t, p.At.Solved.Miss, p.At.Uniform.Miss/2, "%d keys", keys)
	}
}

// Without filters, a lookup reads a block in each run; with perfect ones, it reads only the block that
// it needs. Both results are known without the plan.
func TestAPlanWithoutFiltersReadsEveryRun(t *testing.T) {
	p := result.Of((&db.Options{}).PlanFilters(1e9, 116, 0))(t)
	runs := 0.0
	for _, l := range p.Levels {
		runs += l.Runs
	}
	require.InDelta(t, runs, p.At.Uniform.Miss, 1e-9)
	require.InDelta(t, runs, p.At.Solved.Miss, 1e-9)
	require.Greater(t, p.At.Solved.Hit, runs-1, "nearly all keys are on the last level")
	require.InDelta(t, 1, p.Curve[20].Solved.Hit, 0.01)
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

// bitsOfLevels returns the bits per key of each level's filters, leaving out tables with few keys.
func bitsOfLevels(t *testing.T, d *db.DB) map[int]float64 {
	r := result.Of(d.Filters(context.Background(), 1))(t)
	bits := map[int]float64{}
	for _, l := range r.Levels {
		bits[l.Level] = l.BitsPerKey
	}
	return bits
}

func TestTheDefaultFilterHasMoreBitsAboveTheLastLevel(t *testing.T) {
	race.SkipInShort(t)
	o := storetest.BudgetOptions(vfs.NewMem())
	o.Filters.Policy = nil
	d := storetest.Grown(t, o, 30300)
	bits := bitsOfLevels(t, d)
	require.GreaterOrEqual(t, len(bits), 3)
	last := 0
	for level := range bits {
		last = max(last, level)
	}
	for level, b := range bits {
		if level == last {
			require.InDelta(t, 10.5, b, 1)
		} else {
			require.InDelta(t, 15.5, b, 1.5, "level %d", level) // tables are small: lines are rounded up
		}
	}
	reads, _ := storetest.Wasted(t, d, 20000)
	require.Less(t, reads, 0.014)

	r := result.Of(d.UpgradeFilters(context.Background(), nil, nil))(t)
	require.Zero(t, r.Upgraded, "the filters are up to date")
	require.NoError(t, d.Close())

	o.Filters.Policy = filter.NewCacheLineBloomPolicy(10)
	d = storetest.Grown(t, storetest.BudgetOptions(vfs.NewMem()), 30300)
	uniform, _ := storetest.Wasted(t, d, 20000)
	require.Greater(t, uniform, 1.5*reads)
}
