package backup

import (
	"fmt"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// Policy says which backups Prune keeps, for each CreateOptions.Database separately. Backups that a stream of segments
// continues are counted apart from the others, so that the others do not end the stream. A backup that one of the rules
// keeps is kept. At least one number must be above 0.
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
	if max(p.KeepLast, p.KeepDaily, p.KeepWeekly) == 0 {
		return errors.New("sievedb: backup: the policy would remove every backup; keep at least one with " +
			"KeepLast, KeepDaily or KeepWeekly")
	}
	return nil
}

// series are the backups among which the rules count.
type series struct {
	database string
	streamed bool
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
		periods := map[series]map[string]bool{}
		for n := len(all) - 1; n >= 0; n-- {
			of := series{all[n].Database, all[n].Stream != ""}
			seen := periods[of]
			if seen == nil {
				seen = map[string]bool{}
				periods[of] = seen
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
