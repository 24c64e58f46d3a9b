package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
)

// repository opens the repository in a directory.
func repository(dir string) (*backup.Repository, error) {
	storage, err := backup.NewDir(nil, dir)
	if err != nil {
		return nil, err
	}
	return backup.Open(storage), nil
}

func makeBackup(c *call) (int, error) {
	repo, err := repository(c.args[0])
	if err != nil {
		return exitFailed, err
	}
	return c.with(true, func(store *db.DB) (int, error) {
		info, err := repo.Create(c.ctx, store, &backup.CreateOptions{Database: c.flags.database})
		if info.ID != "" {
			fmt.Fprintf(c.stdout, "%s: %d files of %d bytes, of which %d were new; last sequence %d\n",
				info.ID, info.Files, info.Bytes, info.BytesStored, info.Sequence)
		}
		return codeOf(err), err
	})
}

func listBackups(c *call) (int, error) {
	repo, err := repository(c.dir)
	if err != nil {
		return exitFailed, err
	}
	infos, err := repo.List(c.ctx)
	if err != nil {
		return exitFailed, err
	}
	err = c.table(infos)
	return codeOf(err), err
}

// table prints backups.
func (c *call) table(infos []backup.Info) error {
	t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "id\tdatabase\ttime\tsequence\tfiles\tbytes\tnew bytes\tmade by")
	for _, i := range infos {
		fmt.Fprintf(t, "%s\t%q\t%s\t%d\t%d\t%d\t%d\t%s\n", i.ID, i.Database, i.Time.Format(time.RFC3339),
			i.Sequence, i.Files, i.Bytes, i.BytesStored, i.Engine)
	}
	return t.Flush()
}

func restore(c *call) (int, error) {
	repo, err := repository(c.dir)
	if err != nil {
		return exitFailed, err
	}
	info, err := repo.Restore(c.ctx, c.flags.id, c.args[0], &backup.RestoreOptions{Database: c.flags.database})
	if err != nil {
		return exitFailed, err
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %d files of %d bytes; last sequence %d\n", info.ID, info.Files, info.Bytes, info.Sequence)
	return codeOf(err), err
}

func verify(c *call) (int, error) {
	repo, err := repository(c.dir)
	if err != nil {
		return exitFailed, err
	}
	r, err := repo.Verify(c.ctx)
	if err != nil {
		return exitFailed, err
	}
	for _, f := range r.Faults {
		fmt.Fprintln(c.stdout, f)
	}
	fmt.Fprintf(c.stdout, "%d backups, %d objects, %d bytes read; %d faults\n", r.Backups, r.Objects, r.Bytes, len(r.Faults))
	if len(r.Faults) > 0 {
		return exitFaults, nil
	}
	return exitOK, nil
}

func prune(c *call) (int, error) {
	repo, err := repository(c.dir)
	if err != nil {
		return exitFailed, err
	}
	policy := c.flags.keep
	policy.DryRun = c.flags.dryRun
	r, err := repo.Prune(c.ctx, policy)
	if err != nil {
		return exitFailed, err
	}
	if err := c.table(r.Removed); err != nil {
		return exitFailed, err
	}
	done := "removed"
	if policy.DryRun {
		done = "would be removed; run it without -n to do it"
	}
	fmt.Fprintf(c.stdout, "%d backups kept; the %d above with %d objects of %d bytes %s\n",
		len(r.Kept), len(r.Removed), r.Objects, r.Bytes, done)
	if r.Waiting > 0 {
		fmt.Fprintf(c.stdout, "%d further objects wait for a running backup; the next prune removes them\n", r.Waiting)
	}
	return exitOK, nil
}
