package filterreport

import (
	"fmt"

	"github.com/sievedb/sievedb/sstable"
)

// lookupsToTell is how many lookups a store must have answered before it means
// anything that none of them came to a level.
const lookupsToTell = 10000

// judge returns the verdict on a table and the figures behind it. failed is why the
// table could not be probed to the end.
func judge(t *Table, status sstable.FilterStatus, hashBits int, c *Counts, failed error) (verdict, detail string) {
	switch {
	case t.Probes.Denied > 0:
		return Denies, fmt.Sprintf("%d of %d stored keys", t.Probes.Denied, t.Probes.Stored)
	case failed != nil:
		return Damaged, failed.Error()
	case status.Err != nil: // of the best filter, though another may stand in
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
	if c.Gets >= lookupsToTell && c.Levels[t.Level].Reads == 0 {
		return NeverAsked, fmt.Sprintf("none of %d lookups came to level %d", c.Gets, t.Level)
	}
	return Good, ""
}

// judgeRate compares the measured rate with the predicted one. To be called bad, all of
// the rate's interval must lie beyond twice the prediction and a five-hundredth: less is
// not worth a user's time, and the old name's two hashes make twice the rate.
func judgeRate(t *Table, hashBits int) (verdict, detail string) {
	const half = 0.5
	rate, low, high := t.Probes.Rate()
	measured := fmt.Sprintf("%.2f %% pass (%.2f to %.2f)", 100*rate, 100*low, 100*high)
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
	return Errs, measured
}
