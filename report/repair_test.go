package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The bug: a report without numbers began with "of these".
func TestTheVerdictNamesAnInterruptedRepair(t *testing.T) {
	const ranges = "ranges that are not known any more\n"
	for want, r := range map[string]RepairReport{
		"nothing was lost\n": {},
		"an earlier repair, which was interrupted, gave up entries in " + ranges: {Interrupted: true, Incomplete: true},
		"7 entries are lost; the numbers include what an earlier repair, which was interrupted, gave up in " + ranges: {
			Interrupted: true, Incomplete: true, EntriesLost: 7,
		},
	} {
		require.Equal(t, want, r.verdict())
	}
}
