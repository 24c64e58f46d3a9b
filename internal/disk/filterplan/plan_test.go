package filterplan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
)

func TestAPlanHasAllKeysAndUsesTheMemory(t *testing.T) {
	for _, keys := range []uint64{1, 1000, 100000, 1e6, 1e9, 1e12} {
		for _, bits := range []uint64{0, 1, 10, 20, 50} {
			t.Run(fmt.Sprintf("%d keys, %d bits", keys, bits), func(t *testing.T) {
				var o *db.Options
				p, err := o.PlanFilters(keys, 116, keys*bits/8)
				require.NoError(t, err)
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
		p, err := (&db.Options{}).PlanFilters(keys, 116, keys*10/8)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(p.Levels), 4)
		require.LessOrEqual(t, p.At.Solved.Miss, p.At.Uniform.Miss/2, "%d keys", keys)
	}
}

// Without filters, a lookup reads a block in each run; with perfect ones, it reads only the block that
// it needs. Both results are known without the plan.
func TestAPlanWithoutFiltersReadsEveryRun(t *testing.T) {
	p, err := (&db.Options{}).PlanFilters(1e9, 116, 0)
	require.NoError(t, err)
	runs := 0.0
	for _, l := range p.Levels {
		runs += l.Runs
	}
	require.InDelta(t, runs, p.At.Uniform.Miss, 1e-9)
	require.InDelta(t, runs, p.At.Solved.Miss, 1e-9)
	require.Greater(t, p.At.Solved.Hit, runs-1, "nearly all keys are on the last level")
	require.InDelta(t, 1, p.Curve[20].Solved.Hit, 0.01)
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
			_, err := c.o.PlanFilters(c.keys, c.entry, 1000)
			require.ErrorContains(t, err, "plan")
		})
	}
}
