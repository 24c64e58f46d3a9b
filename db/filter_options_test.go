package db_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
)

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

func TestInvalidPlansAreRefused(t *testing.T) {
	cases := []struct {
		name        string
		o           *db.Options
		keys, entry uint64
	}{
		{"no keys", nil, 0, 100},
		{"more keys than sequence numbers", nil, 1 << 60, 100},
		{"empty entries", nil, 1000, 0},
		{"no filters", &db.Options{Filters: db.FilterOptions{Policy: filter.None}}, 1000, 100},
		{"filters without bits", &db.Options{Filters: db.FilterOptions{Policy: filter.LegacyBloom}}, 1000, 100},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, result.Err(c.o.PlanFilters(c.keys, c.entry, 1000)), "plan")
		})
	}
}

func TestInvalidRangeFiltersAreRefused(t *testing.T) {
	other := *db.BytewiseComparer
	for _, c := range []struct {
		claim string
		o     db.Options
		want  string
	}{
		{"nil", db.Options{Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{fixture.PrefixOfTen, nil}}}, "Options.Filters.RangePolicies[1] is nil"},
		{"two of one name", db.Options{
			Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{fixture.PrefixOfTen, rangefilter.NewPrefix(rangefilter.FixedPrefix(10), 3)}},
		}, "one name"},
		{"five policies", db.Options{Filters: db.FilterOptions{RangePolicies: make([]rangefilter.Policy, 5)}}, "at most 4"},
		{"an order other than that of bytes", db.Options{
			Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{fixture.PrefixOfTen}}, Comparer: &other,
		}, "order of bytes"},
	} {
		require.ErrorContains(t, c.o.Validate(), c.want, c.claim)
	}
	require.NoError(t, (&db.Options{Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{fixture.PrefixOfTen}}}).Validate())
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
