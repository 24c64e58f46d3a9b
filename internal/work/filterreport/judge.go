package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/sstable"
)

// minLookups is how many lookups a store must have answered before it is significant that none of
// them reached a level.
const minLookups = 10000

// judge returns the verdict on a table and the figures for it. failed is the error that ended the
// probing of the table.
func judge(t *Table, status sstable.FilterStatus, hashBits int, c *Counts, failed error) (verdict, detail string) {
	switch {
	case t.Probes.Denied > 0:
		return Denies, fmt.Sprintf("%d of %d stored keys", t.Probes.Denied, t.Probes.Stored)
	case failed != nil:
		return Damaged, failed.Error()
	case status.Err != nil: // of the preferred filter, even if another replaces it
		return Damaged, status.Err.Error()
	}
	switch status.State {
	case sstable.FilterOff:
		return Off, ""
	case sstable.FilterMissing:
		return NoFilter, ""
	case sstable.FilterUnknown:
		return Unknown, fmt.Sprintf("%q", status.Policy)
	}
	if v, detail := judgeRate(t, hashBits); v != Good {
		return v, detail
	}
	if c.Gets >= minLookups && c.Levels[t.Level].Reads == 0 {
		return NeverQueried, fmt.Sprintf("none of %d lookups reached level %d", c.Gets, t.Level)
	}
	return Good, ""
}

// judgeRate compares the measured rate with the predicted one. The rate is bad if its whole
// interval is beyond twice the prediction plus 0.2 %: smaller differences are not worth a user's
// time, and the two hashes of the old filter name double the rate.
func judgeRate(t *Table, hashBits int) (verdict, detail string) {
	const half = 0.5
	rate, low, high := t.Probes.Rate()
	measured := fmt.Sprintf("%.2f %% false positives (%.2f to %.2f)", 100*rate, 100*low, 100*high)
	if t.Predicted >= 0 {
		measured += fmt.Sprintf(", %.2f %% predicted", 100*t.Predicted)
	}
	switch {
	case t.Probes.Absent == 0 && t.Predicted >= half:
		return Saturated, fmt.Sprintf("%.2f %% predicted", 100*t.Predicted)
	case t.Probes.Absent == 0:
		return Good, ""
	case low >= half && (t.Predicted < 0 || t.Predicted >= half/2):
		return Saturated, measured
	case t.Predicted < 0 || low <= 2*t.Predicted+0.002:
		return Good, ""
	case hashBits == 32:
		return Collisions, measured
	}
	return HighRate, measured
}
