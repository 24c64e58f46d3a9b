package filterreport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

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
