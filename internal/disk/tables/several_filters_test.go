package tables_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

const (
	linesName = "sievedb.CacheLineBloom"
	fuseName  = "sievedb.BinaryFuse8"
)

func TestEachTableUsesTheBestOfItsFilters(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	storetest.FillUnder(t, o, filter.NewBloomPolicy(10), 0, 100)
	storetest.FillUnder(t, o, filter.NewCacheLineBloomPolicy(10), 100, 200)
	storetest.FillUnder(t, o, filter.NewDualBloomPolicy(10), 200, 300)
	storetest.FillUnder(t, o, filter.LegacyBloom, 300, 400)
	storetest.FillUnder(t, o, filter.None, 400, 500)
	storetest.FillUnder(t, o, filter.FusePolicy{}, 500, 600)
	storetest.FillUnder(t, o, filter.Several(filter.NewBloomPolicy(10), filter.FusePolicy{}), 600, 700)
	for _, c := range []struct {
		claim string
		p     filter.Policy
		want  map[string]int
	}{
		{"by default binary fuse and cache lines come first", nil, map[string]int{fuseName: 2, linesName: 2, fixture.BloomName: 1, "leveldb.BuiltinBloomFilter": 1}},
		{"the configured policy comes first", filter.NewBloomPolicy(10), map[string]int{fuseName: 1, linesName: 1, fixture.BloomName: 3, "leveldb.BuiltinBloomFilter": 1}},
		{"several configured policies come in their order", filter.Several(fixture.Always, filter.NewBloomPolicy(3), filter.NewCacheLineBloomPolicy(3)), map[string]int{fuseName: 1, linesName: 1, fixture.BloomName: 3, "leveldb.BuiltinBloomFilter": 1}},
		{"without a policy no filter is queried", filter.None, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o.Filters.Policy, o.ReadOnly = c.p, true
			d := storetest.Open(t, o)
			for i := range 700 {
				storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
			}
			m := d.Metrics()
			require.Equal(t, c.want, m.Tables.FilterPolicies)
			require.Zero(t, m.Tables.WithFallbackFilter)
			if c.p != filter.None {
				require.Equal(t, 1, m.Tables.WithoutFilter)
			}
			for i := 0; i < 700; i += 100 {
				x := storetest.Explain(t, d, fixture.Key(i))
				step := x.Steps[len(x.Steps)-1]
				require.True(t, step.Found)
				require.Equal(t, step.Filter == "none", step.FilterPolicy == "")
				require.Contains(t, x.String(), step.FilterPolicy)
			}
			storetest.RequireNoFaults(t, d)
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
			o := storetest.Options(mem)
			storetest.FillUnder(t, o, nil, 0, 500)
			table := filepath.Join("db", fixture.Names(t, mem, base.FileTable)[0])
			data := fixture.ReadFile(t, mem, table)
			at, _ := fixture.FilterBlock(t, data, c.policy)
			data[at+3] ^= 8
			fixture.WriteFile(t, mem, table, data)

			var reported []report.FilterInfo
			o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) { reported = append(reported, i) }}
			d := storetest.Open(t, o)
			for i := range 500 {
				storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
			}
			require.Len(t, reported, c.fallbacks)
			for _, i := range reported {
				require.Equal(t, linesName, i.Policy)
				require.Equal(t, fixture.BloomName, i.Instead)
				require.ErrorIs(t, i.Err, db.ErrCorruption)
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
	inexact := &db.Comparer{Name: "test.Inexact", Compare: db.BytewiseComparer.Compare, InexactEqual: true}
	for _, p := range []filter.Policy{
		nil, filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(10), filter.NewDualBloomPolicy(10), filter.LegacyBloom,
		filter.Several(fixture.Always, filter.LegacyBloom), filter.Several(fixture.Always, filter.NewCacheLineBloomPolicy(1)), filter.FusePolicy{},
	} {
		require.ErrorContains(t, (&db.Options{Comparer: inexact, Filters: db.FilterOptions{Policy: p}}).Validate(), "would deny stored keys")
	}
	for _, p := range []filter.Policy{filter.None, fixture.Always, filter.Several(fixture.Always, fixture.Never)} {
		require.NoError(t, (&db.Options{Comparer: inexact, Filters: db.FilterOptions{Policy: p}}).Validate())
	}
}

func TestATableHasAtMostFiveFilters(t *testing.T) {
	var many []filter.Policy
	for i := range 5 {
		many = append(many, fixture.Renamed{As: fmt.Sprint("test.", i)})
	}
	require.NoError(t, (&db.Options{Filters: db.FilterOptions{Policy: filter.Several(many...)}}).Validate())
	many = append(many, filter.NewBloomPolicy(10))
	require.ErrorContains(t, (&db.Options{
		Filters: db.FilterOptions{Policy: filter.Several(many...)},
	}).Validate(), "Options.Filters.Policy has 6 filters a table; at most 5")
}
