package filterreport

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

func optionsOf(s *tabletest.Store, probes int) Options {
	return Options{
		Cache: s.Cache, Comparer: base.Bytewise, Closed: func() bool { return false },
		Probes: probes, Counts: &Counts{}, SampledOneIn: 128,
	}
}

// even returns the even numbers below 2n.
func even(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, 2*i)
	}
	return numbers
}

func TestFiltersAreJudgedByTheirAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		policy  filter.Policy
		verdict report.FilterVerdict
	}{
		"ten bits":  {filter.NewCacheLineBloomPolicy(10), report.VerdictGood},
		"a bit":     {filter.NewCacheLineBloomPolicy(1), report.VerdictSaturated},
		"no filter": {filter.None, report.VerdictOff},
	} {
		t.Run(name, func(t *testing.T) {
			s := tabletest.New(t, c.policy)
			f := s.Add(1, 7, "value", even(3000)...)
			s.Add(2, 7, "value", even(10)...)
			tables.Of(f).Sampled.Negatives.Add(2)
			o := optionsOf(s, 1000)
			o.Counts.Levels[1].Keys = Verdicts{Negatives: 300, FalsePositives: 3}
			got := result.Of(Examine(t.Context(), s.Version(), o))(t)
			require.Len(t, got.Tables, 2)
			first := got.Tables[0]
			require.Equal(t, c.verdict, first.Verdict, first.Detail)
			require.NotEmpty(t, first.Advice)
			require.Zero(t, first.Probes.Denied)
			require.EqualValues(t, 1000, first.Probes.Stored)
			require.InDelta(t, 1000, first.Probes.Absent, 0, "there are enough gaps")
			require.EqualValues(t, 256, first.Lookups.Negatives)
			require.Equal(t, map[report.FilterVerdict]int{c.verdict: 1}, got.Levels[0].Verdicts)
			require.EqualValues(t, 300, got.Levels[0].Lookups.Negatives)
			require.InEpsilon(t, 300*first.BlockBytes, got.Levels[0].Lookups.BytesSaved, 0.01)
		})
	}
}

func TestWithoutProbesNothingIsOpened(t *testing.T) {
	s := tabletest.New(t, filter.NewCacheLineBloomPolicy(10))
	f := s.Add(1, 7, "value", even(10)...)
	got := result.Of(Examine(t.Context(), s.Version(), optionsOf(s, 0)))(t)
	require.Equal(t, report.VerdictUnopened, got.Tables[0].Verdict)
	require.Nil(t, tables.Of(f).Peek())
}

func TestUnreachedLevelIsNeverQueried(t *testing.T) {
	s := tabletest.New(t, filter.NewCacheLineBloomPolicy(10))
	s.Add(1, 7, "value", even(1000)...)
	o := optionsOf(s, 100)
	o.Counts.Gets = minLookups
	got := result.Of(Examine(t.Context(), s.Version(), o))(t)
	require.Equal(t, report.VerdictNeverQueried, got.Tables[0].Verdict)
}

func TestDamagedTableIsReportedButNotAClosedStore(t *testing.T) {
	s := tabletest.New(t, filter.NewCacheLineBloomPolicy(10))
	s.Flip(s.Add(1, 7, "value", even(10)...), 5)
	got := result.Of(Examine(t.Context(), s.Version(), optionsOf(s, 100)))(t)
	require.Equal(t, report.VerdictDamaged, got.Tables[0].Verdict)

	o := optionsOf(s, 100)
	o.Closed = func() bool { return true }
	got, err := Examine(t.Context(), s.Version(), o)
	require.ErrorIs(t, err, base.ErrClosed)
	require.Empty(t, got.Tables)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, result.Err(Examine(ctx, s.Version(), optionsOf(s, 100))), context.Canceled)
}

func TestRangeFilterVerdicts(t *testing.T) {
	cases := []struct {
		name     string
		unusable error
		level    Verdicts
		checks   uint64
		verdict  report.FilterVerdict
		detail   string
	}{
		{"damage", base.Corruptf("range filter block", 7, "checksum"), Verdicts{}, 0, report.VerdictDamaged, "checksum"},
		{"an unknown name", sstable.ErrRangeUnknown, Verdicts{}, 0, report.VerdictRangeUnknown, "no policy of that name"},
		{"a store just opened", nil, Verdicts{}, 0, report.VerdictRangeNotQueried, ""},
		{"iterators that end above", nil, Verdicts{}, minRangeChecks, report.VerdictRangeNeverQueried, "queried 1000 times on other levels"},
		{"too few to judge", nil, Verdicts{0, 5, minEmptyTables - 1}, 104, report.VerdictGood, "queried 104 times on the level: 0 tables skipped, 5 with keys in the range, 99 without"},
		{"bounds that the policy does not fit", nil, Verdicts{0, 5, minEmptyTables}, 105, report.VerdictRangeMatchesEmpty, "0 tables skipped"},
		{"half of them", nil, Verdicts{50, 0, 50}, 100, report.VerdictGood, "50 tables skipped"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			verdict, detail := judgeRanges(c.unusable, &c.level, c.checks)
			require.Equal(t, c.verdict, verdict)
			require.Contains(t, detail, c.detail)
			require.NotEmpty(t, verdict.Advice())
		})
	}
}
