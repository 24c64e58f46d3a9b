package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/backup"
)

// VerifyReport is what VerifyBackups found.
type VerifyReport struct {
	Backups, Objects int
	Bytes            int64
	// Faults are sentences.
	Faults []string
}

// VerifyBackups reads every byte that the backups in a repository need.
func VerifyBackups(ctx context.Context, s backup.Storage) (r VerifyReport, err error) {
	all, listErr := ListBackups(ctx, s)
	if listErr != nil {
		r.Faults = append(r.Faults, listErr.Error())
	}
	found, err := backup.Open(s).Verify(ctx)
	if err != nil {
		return r, err
	}
	r.Backups, r.Objects, r.Bytes = len(all), found.Objects, found.Bytes
	for _, fault := range found.Faults {
		text := fault.String()
		if needed := neededBy(all, fault.Backups); len(needed) > 0 {
			text += "; these backups of the cluster cannot be restored: " + strings.Join(needed, ", ")
		}
		r.Faults = append(r.Faults, text)
	}
	databases, err := storedGroups(ctx, s)
	if err != nil && len(databases) == 0 {
		return r, err
	}
	for _, b := range all {
		if err := b.missing(databases); err != nil {
			r.Faults = append(r.Faults, err.Error())
		}
	}
	return r, nil
}

// neededBy returns the IDs of the clusters' backups that need one of some backups of groups.
func neededBy(all []*Backup, groups []string) (ids []string) {
	for _, b := range all {
		if slices.ContainsFunc(b.Groups, func(g GroupBackup) bool { return slices.Contains(groups, g.Backup) }) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// PruneReport is what PruneBackups did, or would do.
type PruneReport struct {
	Kept, Removed []*Backup // the oldest first
	// Objects and Bytes count what was deleted from the repository. Waiting objects will be deleted by a later call.
	Objects, Waiting int
	Bytes            int64
}

// PruneBackups removes the backups that a policy does not keep, for each cluster separately, and what only they need.
// What belongs to no backup, as after an interrupted one, is removed when it is old enough.
func PruneBackups(ctx context.Context, s backup.Storage, p backup.Policy) (r PruneReport, err error) {
	if min(p.KeepLast, p.KeepDaily, p.KeepWeekly) < 0 || max(p.KeepLast, p.KeepDaily, p.KeepWeekly) == 0 {
		return r, errors.New("the policy must keep a number of backups, of days or of weeks that is above 0")
	}
	all, err := ListBackups(ctx, s)
	if err != nil {
		return r, fmt.Errorf("nothing was removed, because it is not known what a damaged backup needs: %w", err)
	}
	r.Kept, r.Removed = divide(all, p)
	if p.DryRun {
		return r, nil
	}
	for _, b := range r.Removed { // first, so that no backup is listed that is not complete
		if err := s.Delete(ctx, clusterPrefix+b.ID); err != nil {
			return r, err
		}
	}
	if err := dropGroupBackups(ctx, s, r); err != nil {
		return r, err
	}
	// Backups of other databases, and those that are needed, all stay: this removes objects.
	done, err := backup.Open(s).Prune(ctx, backup.Policy{KeepLast: math.MaxInt})
	r.Objects, r.Bytes, r.Waiting = done.Objects, done.Bytes, done.Waiting
	return r, err
}

// dropGroupBackups deletes the backups of groups that no backup of a cluster needs. One that was not removed just now
// may belong to a backup that is being made, if it is not too old.
func dropGroupBackups(ctx context.Context, s backup.Storage, r PruneReport) error {
	infos, err := backup.Open(s).List(ctx)
	if err != nil {
		return err
	}
	needed, removed := map[string]bool{}, map[string]bool{}
	for _, b := range r.Kept {
		for _, g := range b.Groups {
			needed[g.Backup] = true
		}
	}
	for _, b := range r.Removed {
		for _, g := range b.Groups {
			removed[g.Backup] = true
		}
	}
	for _, info := range infos {
		old := removed[info.ID] || time.Since(info.Time) > backup.AbandonedAfter
		if needed[info.ID] || !old || !strings.HasPrefix(info.Database, databasePrefix) {
			continue
		}
		if err := s.Delete(ctx, "backups/"+info.ID); err != nil {
			return err
		}
	}
	return nil
}

// divide returns which of the backups, the oldest first, to keep and to remove.
func divide(all []*Backup, p backup.Policy) (keep, remove []*Backup) {
	week := func(b *Backup) string {
		year, week := b.Time.UTC().ISOWeek()
		return fmt.Sprint(year, "-", week)
	}
	kept := map[string]bool{}
	for _, rule := range []struct {
		n      int
		period func(*Backup) string
	}{
		{p.KeepLast, func(b *Backup) string { return b.ID }},
		{p.KeepDaily, func(b *Backup) string { return b.Time.UTC().Format(time.DateOnly) }},
		{p.KeepWeekly, week},
	} {
		periods := map[string]map[string]bool{} // by cluster
		for _, b := range slices.Backward(all) {
			seen := periods[b.Cluster]
			if seen == nil {
				seen = map[string]bool{}
				periods[b.Cluster] = seen
			}
			if period := rule.period(b); len(seen) < rule.n && !seen[period] {
				seen[period], kept[b.ID] = true, true
			}
		}
	}
	for _, b := range all {
		if kept[b.ID] {
			keep = append(keep, b)
		} else {
			remove = append(remove, b)
		}
	}
	return keep, remove
}
