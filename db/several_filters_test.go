package db

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/vfs"
)

const (
	linesName = "sievedb.CacheLineBloom"
	bloomName = "leveldb.BuiltinBloomFilter2"
	fuseName  = "sievedb.BinaryFuse8"
)

// fillUnder writes keys from..to with a policy, to separate tables.
func fillUnder(t *testing.T, o *Options, p filter.Policy, from, to int) {
	t.Helper()
	o.Filters.Policy, o.Compaction.L0Trigger = p, 100
	d := mustOpen(t, o)
	fill(t, d, from, to)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
}

func TestEachTableUsesTheBestOfItsFilters(t *testing.T) {
	o := testOptions(vfs.NewMem())
	fillUnder(t, o, filter.NewBloomPolicy(10), 0, 100)
	fillUnder(t, o, filter.NewCacheLineBloomPolicy(10), 100, 200)
	fillUnder(t, o, filter.NewDualBloomPolicy(10), 200, 300)
	fillUnder(t, o, filter.LegacyBloom, 300, 400)
	fillUnder(t, o, filter.None, 400, 500)
	fillUnder(t, o, filter.FusePolicy{}, 500, 600)
	fillUnder(t, o, filter.Several(filter.NewBloomPolicy(10), filter.FusePolicy{}), 600, 700)
	for _, c := range []struct {
		claim string
		p     filter.Policy
		want  map[string]int
	}{
		{"by default binary fuse and cache lines come first", nil, map[string]int{fuseName: 2, linesName: 2, bloomName: 1, "leveldb.BuiltinBloomFilter": 1}},
		{"the configured policy comes first", filter.NewBloomPolicy(10), map[string]int{fuseName: 1, linesName: 1, bloomName: 3, "leveldb.BuiltinBloomFilter": 1}},
		{"several configured policies come in their order", filter.Several(always, filter.NewBloomPolicy(3), filter.NewCacheLineBloomPolicy(3)), map[string]int{fuseName: 1, linesName: 1, bloomName: 3, "leveldb.BuiltinBloomFilter": 1}},
		{"without a policy no filter is queried", filter.None, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o.Filters.Policy, o.ReadOnly = c.p, true
			d := openTest(t, o)
			for i := range 700 {
				requireValue(t, d, testKey(i), testValue(i))
			}
			m := d.Metrics()
			require.Equal(t, c.want, m.Tables.FilterPolicies)
			require.Zero(t, m.Tables.WithFallbackFilter)
			if c.p != filter.None {
				require.Equal(t, 1, m.Tables.WithoutFilter)
			}
			for i := 0; i < 700; i += 100 {
				x, err := d.Explain(testKey(i))
				require.NoError(t, err)
				step := x.Steps[len(x.Steps)-1]
				require.True(t, step.Found)
				require.Equal(t, step.Filter == "none", step.FilterPolicy == "")
				require.Contains(t, x.String(), step.FilterPolicy)
			}
			report, err := d.Check(t.Context())
			require.NoError(t, err)
			require.Empty(t, report.Faults)
		})
	}
}

// Check also reads the filters that lookups do not need.
func TestCheckFindsDamageOfAnUnusedFilter(t *testing.T) {
	for _, c := range []struct {
		policy    filter.Policy
		fallbacks int
	}{{filter.NewCacheLineBloomPolicy(10), 1}, {filter.NewBloomPolicy(10), 0}} {
		t.Run(c.policy.Name(), func(t *testing.T) {
			mem := vfs.NewMem()
			o := testOptions(mem)
			fillUnder(t, o, nil, 0, 500)
			table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
			data := readFile(t, mem, table)
			at, _ := filterBlockOf(t, data, c.policy)
			data[at+3] ^= 8
			writeFile(t, mem, table, data)

			var reported []FilterInfo
			o.EventListener = &EventListener{FilterUnusable: func(i FilterInfo) { reported = append(reported, i) }}
			d := openTest(t, o)
			for i := range 500 {
				requireValue(t, d, testKey(i), testValue(i))
			}
			require.Len(t, reported, c.fallbacks)
			for _, i := range reported {
				require.Equal(t, linesName, i.Policy)
				require.Equal(t, bloomName, i.Instead)
				require.ErrorIs(t, i.Err, ErrCorruption)
			}
			m := d.Metrics()
			require.Equal(t, c.fallbacks, m.Tables.WithFallbackFilter)
			require.Zero(t, m.Tables.WithDamagedFilter)
			report, err := d.Check(t.Context())
			require.NoError(t, err)
			require.Len(t, report.Faults, 1)
			require.Contains(t, report.Faults[0], "filter block")
		})
	}
}

func TestPoliciesThatHashBytesNeedAnExactComparer(t *testing.T) {
	inexact := &Comparer{Name: "test.Inexact", Compare: BytewiseComparer.Compare, InexactEqual: true}
	for _, p := range []filter.Policy{
		nil, filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(10), filter.NewDualBloomPolicy(10), filter.LegacyBloom,
		filter.Several(always, filter.LegacyBloom), filter.Several(always, filter.NewCacheLineBloomPolicy(1)), filter.FusePolicy{},
	} {
		require.ErrorContains(t, (&Options{Comparer: inexact, Filters: FilterOptions{Policy: p}}).Validate(), "would deny stored keys")
	}
	for _, p := range []filter.Policy{filter.None, always, filter.Several(always, never)} {
		require.NoError(t, (&Options{Comparer: inexact, Filters: FilterOptions{Policy: p}}).Validate())
	}
}

func TestATableHasAtMostFiveFilters(t *testing.T) {
	var many []filter.Policy
	for i := range 5 {
		many = append(many, renamed{name: fmt.Sprint("test.", i)})
	}
	require.NoError(t, (&Options{Filters: FilterOptions{Policy: filter.Several(many...)}}).Validate())
	many = append(many, filter.NewBloomPolicy(10))
	require.ErrorContains(t, (&Options{
		Filters: FilterOptions{Policy: filter.Several(many...)},
	}).Validate(), "Options.Filters.Policy has 6 filters a table; at most 5")
}
