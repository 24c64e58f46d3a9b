package db

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
)

func TestVerdictsOnFiltersOfRanges(t *testing.T) {
	counts := func(negatives, found, inVain uint64) LevelMetrics {
		return LevelMetrics{
			RangeChecks: negatives + found + inVain, RangeNegatives: negatives,
			RangeTruePositives: found, RangeFalsePositives: inVain,
		}
	}
	cases := []struct {
		name     string
		unusable error
		level    LevelMetrics
		checks   uint64
		verdict  FilterVerdict
		detail   string
	}{
		{"damage", base.Corruptf("range filter block", 7, "checksum"), LevelMetrics{}, 0, VerdictDamaged, "checksum"},
		{"a name that nobody knows", sstable.ErrRangeUnknown, LevelMetrics{}, 0, VerdictRangeUnknown, "no policy of that name"},
		{"a store just opened", nil, LevelMetrics{}, 0, VerdictRangeUnasked, ""},
		{"iterators that end above", nil, LevelMetrics{}, rangesToTell, VerdictRangeNeverAsked, "asked 1000 times on other levels"},
		{"too few to tell", nil, counts(0, 5, emptyToTell-1), 104, VerdictGood, "asked 104 times on the level: 0 tables passed over, 5 held something in the range, 99 did not"},
		{"bounds that the policy does not fit", nil, counts(0, 5, emptyToTell), 105, VerdictRangePasses, "0 tables passed over"},
		{"half of them", nil, counts(50, 0, 50), 100, VerdictGood, "50 tables passed over"},
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
