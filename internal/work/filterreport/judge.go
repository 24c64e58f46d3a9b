package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// minLookups is how many lookups a store must have answered before it is significant that none of them reached a level.
const minLookups = 10000

// judge returns the verdict on a table and the figures for it. failed is the error that ended the probing of the table.
func judge(t *report.TableFilterReport, status sstable.FilterStatus, hashBits int, c *Counts, failed error) (verdict report.FilterVerdict, detail string) {
	switch {
	case t.Probes.Denied > 0:
		return report.VerdictDenies, fmt.Sprintf("%d of %d stored keys", t.Probes.Denied, t.Probes.Stored)
	case failed != nil:
		return report.VerdictDamaged, failed.Error()
	case status.Err != nil: // of the preferred filter, even if another replaces it
		return report.VerdictDamaged, status.Err.Error()
	}
	switch status.State {
	case sstable.FilterOff:
		return report.VerdictOff, ""
	case sstable.FilterMissing:
		return report.VerdictNoFilter, ""
	case sstable.FilterUnknown:
		return report.VerdictUnknown, fmt.Sprintf("%q", status.Policy)
	}
	if v, detail := judgeRate(t, hashBits); v != report.VerdictGood {
		return v, detail
	}
	if c.Gets >= minLookups && c.Levels[t.Level].Reads == 0 {
		return report.VerdictNeverQueried, fmt.Sprintf("none of %d lookups reached level %d", c.Gets, t.Level)
	}
	return report.VerdictGood, ""
}

// judgeRate compares the measured rate with the predicted one. The rate is bad if its whole
// interval is beyond twice the prediction plus 0.2 %: smaller differences are not worth a user's
// time, and the two hashes of the old filter name double the rate.
func judgeRate(t *report.TableFilterReport, hashBits int) (verdict report.FilterVerdict, detail string) {
	const half = 0.5
	rate, low, high := t.Probes.Rate()
	measured := fmt.Sprintf("%.2f %% false positives (%.2f to %.2f)", 100*rate, 100*low, 100*high)
	if t.Predicted >= 0 {
		measured += fmt.Sprintf(", %.2f %% predicted", 100*t.Predicted)
	}
	switch {
	case t.Probes.Absent == 0 && t.Predicted >= half:
		return report.VerdictSaturated, fmt.Sprintf("%.2f %% predicted", 100*t.Predicted)
	case t.Probes.Absent == 0:
		return report.VerdictGood, ""
	case low >= half && (t.Predicted < 0 || t.Predicted >= half/2):
		return report.VerdictSaturated, measured
	case t.Predicted < 0 || low <= 2*t.Predicted+0.002:
		return report.VerdictGood, ""
	case hashBits == 32:
		return report.VerdictCollisions, measured
	}
	return report.VerdictHighRate, measured
}
