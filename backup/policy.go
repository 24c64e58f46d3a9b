package backup

import (
	"fmt"
	"time"

	"github.com/sievedb/sievedb/internal/errors"
)

// Policy says which backups Prune keeps, for each CreateOptions.Database separately. A backup that one of
// the rules keeps is kept. At least one number must be above 0.
type Policy struct {
	// KeepLast is the number of newest backups to keep.
	KeepLast int
	// KeepDaily and KeepWeekly are numbers of days and of ISO weeks, in UTC, that have backups: the
	// newest backup of each of them is kept.
	KeepDaily, KeepWeekly int
	// DryRun only reports what would be done.
	DryRun bool
}

func (p Policy) check() error {
	for name, n := range map[string]int{"KeepLast": p.KeepLast, "KeepDaily": p.KeepDaily, "KeepWeekly": p.KeepWeekly} {
		if n < 0 {
			return errors.Newf("sievedb: backup: Policy.%s is %d; want 0 or more", name, n)
		}
	}
	if p.KeepLast+p.KeepDaily+p.KeepWeekly == 0 {
		return errors.New("sievedb: backup: the policy would remove every backup; keep at least one with " +
			"KeepLast, KeepDaily or KeepWeekly")
	}
	return nil
}

// divide returns which of the backups, sorted from the oldest, to keep and to remove, in the same order.
func (p Policy) divide(all []Info) (keep, remove []Info) {
	kept := map[string]bool{}
	rules := []struct {
		n      int
		period func(Info) string
	}{
		{p.KeepLast, func(i Info) string { return i.ID }},
		{p.KeepDaily, func(i Info) string { return i.Time.UTC().Format(time.DateOnly) }},
		{p.KeepWeekly, func(i Info) string { return week(i.Time) }},
	}
	for _, rule := range rules {
		periods := map[string]map[string]bool{} // by database
		for n := len(all) - 1; n >= 0; n-- {
			seen := periods[all[n].Database]
			if seen == nil {
				seen = map[string]bool{}
				periods[all[n].Database] = seen
			}
			if period := rule.period(all[n]); len(seen) < rule.n && !seen[period] {
				seen[period] = true
				kept[all[n].ID] = true
			}
		}
	}
	for _, i := range all {
		if kept[i.ID] {
			keep = append(keep, i)
		} else {
			remove = append(remove, i)
		}
	}
	return keep, remove
}

func week(t time.Time) string {
	year, week := t.UTC().ISOWeek()
	return fmt.Sprintf("%d-%d", year, week)
}
