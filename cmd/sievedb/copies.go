package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
)

func (a *app) copyVerbs() []*verb {
	var flushFirst bool
	var create backup.CreateOptions
	var archive struct {
		database string
		stop     bool
	}
	var restore struct{ id, at, database string }
	var given *pflag.FlagSet // to restore
	var keep backup.Policy
	return []*verb{
		{use: "checkpoint DIR DEST", group: groupCopies, min: 2, max: 2, short: "Make a directory that opens with the present content",
			long:  "Make the directory DEST, which opens as a database with the content at one moment. Tables are linked, not copied,\nif DEST is on the same file system.",
			flags: func(f *pflag.FlagSet) { f.BoolVar(&flushFirst, "flush", false, "flush first, so that DEST has no log") },
			run:   func(args []string) error { return a.checkpoint(args, flushFirst) }},
		{use: "backup DIR REPO", group: groupCopies, min: 2, max: 2, short: "Store a backup in a repository",
			long: "Store a backup in the repository REPO, a directory, which the first backup makes. What is stored already is not\ncopied again.",
			flags: func(f *pflag.FlagSet) {
				f.StringVar(&create.Database, "database", "", "the name of the database, if the repository has several")
				f.BoolVar(&create.Flush, "flush", false, "flush first, so that the backup has no large log")
				f.StringVar(&create.CheckpointParent, "checkpoint-parent", "",
					"where the temporary checkpoint of DIR is made (default: DIR/backup)")
				f.BoolVar(&create.ReadAll, "read-all", false, "read every table instead of trusting the hash in it")
			},
			run: func(args []string) error { return a.makeBackup(args, &create) }},
		{use: "archive DIR REPO", group: groupCopies, min: 2, max: 2, short: "Store what was written since the last time, for 'restore --at'",
			long: "Store in the repository REPO what was written since the last call, so that 'restore --at' reaches every change up to\n" +
				"now. The first call stores a backup, and from then on the database keeps its changes for the next call: --stop ends\n" +
				"that. No other process may have DIR open; a program that keeps it open archives by itself.",
			example: "  sievedb archive db repo\n  sievedb backups repo\n  sievedb restore repo copy --at 1000",
			flags: func(f *pflag.FlagSet) {
				f.StringVar(&archive.database, "database", "", "the name of the database, if the repository has several")
				f.BoolVar(&archive.stop, "stop", false, "store nothing, and let the database keep no more changes for REPO")
			},
			run:        func(args []string) error { return a.archive(args, archive.database, archive.stop) },
			notInShell: "it needs the database opened so that it keeps its changes"},
		{use: "backups REPO", group: groupCopies, min: 1, max: 1, noDir: true, run: a.listBackups, short: "List the backups of a repository, the oldest first"},
		{use: "restore REPO DEST", group: groupCopies, min: 2, max: 2, noDir: true, short: "Make a database from a backup",
			long: "Make the directory DEST, which opens as a database, from a backup: the newest, or the one that --id names. With --at,\n" +
				"the state is that of a moment after a backup, if the repository has the segments of the log.",
			example: "  sievedb restore repo db\n  sievedb restore repo db --at 2026-03-01T12:00:00Z",
			flags: func(f *pflag.FlagSet) {
				given = f
				f.StringVar(&restore.id, "id", "", "the backup, as 'backups' lists it (default: the newest)")
				f.StringVar(&restore.at, "at", "", "a time or sequence number in a window that 'backups' prints")
				f.StringVar(&restore.database, "database", "", "the name of the database, if the repository has several")
			},
			run: func(args []string) error {
				if given.Changed("at") { // an empty value, as of an unset variable, does not mean the newest backup
					return a.restoreAt(args, restore.at, restore.id, restore.database)
				}
				return a.restore(args, restore.id, restore.database)
			}},
		{use: "verify REPO", group: groupCopies, min: 1, max: 1, noDir: true, run: a.verify, short: "Read every byte that the backups need, and report faults",
			long: "Read every byte that the backups of a repository need, and report faults. The exit code is 4 if there are any."},
		{use: "prune REPO", group: groupCopies, min: 1, max: 1, noDir: true, short: "Remove old backups",
			long: "Remove the backups that --keep-last, --keep-daily and --keep-weekly do not keep, and what only they need.",
			flags: func(f *pflag.FlagSet) {
				f.IntVar(&keep.KeepLast, "keep-last", 0, "keep so many newest backups of each database")
				f.IntVar(&keep.KeepDaily, "keep-daily", 0, "keep the newest backup of so many days")
				f.IntVar(&keep.KeepWeekly, "keep-weekly", 0, "keep the newest backup of so many weeks")
				f.BoolVarP(&keep.DryRun, "dry-run", "n", false, "remove nothing, and report what would be removed")
			},
			run: func(args []string) error { return a.prune(args, keep) }},
	}
}

func (a *app) checkpoint(args []string, flushFirst bool) error {
	return a.read(args[0], func(store *db.DB) error {
		stop := a.waiting("making a checkpoint", nil)
		info, err := store.Checkpoint(a.ctx, args[1], &db.CheckpointOptions{Flush: flushFirst})
		stop()
		if err != nil {
			return err
		}
		return a.out.result(info, func() {
			a.out.prose("%s and %s; %s linked, %s copied; last sequence %d", a.out.count(uint64(info.Tables), "table"),
				a.out.count(uint64(info.Logs), "log"), a.out.bytes(uint64(info.BytesLinked)), a.out.bytes(uint64(info.BytesCopied)), info.Seq)
		})
	})
}

// repository opens the repository in a directory.
func repository(dir string) (*backup.Repository, error) {
	storage, err := backup.NewDir(nil, dir)
	if err != nil {
		return nil, err
	}
	return backup.Open(storage), nil
}

func (a *app) makeBackup(args []string, o *backup.CreateOptions) error {
	repo, err := repository(args[1])
	if err != nil {
		return err
	}
	return a.read(args[0], func(store *db.DB) error {
		stop := a.waiting("storing a backup", nil)
		info, err := repo.Create(a.ctx, store, o)
		stop()
		if info.ID != "" {
			perr := a.out.result(info, func() {
				a.out.prose("%s: %s of %s, of which %s were new; last sequence %d", info.ID, a.out.count(uint64(info.Files), "file"),
					a.out.bytes(uint64(info.Bytes)), a.out.bytes(uint64(info.BytesStored)), info.Sequence)
			})
			if err == nil {
				err = perr
			}
		}
		return err
	})
}

// archive stores the changes since the last call in a repository.
func (a *app) archive(args []string, database string, stop bool) error {
	repo, err := repository(args[1])
	if err != nil {
		return err
	}
	if stop {
		return a.stopArchiving(args[0], args[1], repo)
	}
	return a.archived(args[0], func(store *db.DB) error {
		o := &backup.ArchiveOptions{CreateOptions: backup.CreateOptions{Database: database}}
		stop := a.waiting("archiving", nil)
		info, err := repo.Archive(a.ctx, store, o)
		stop()
		if err != nil {
			return err
		}
		return a.out.result(info, func() {
			if info.Backup != nil {
				a.out.prose("%s: a backup of %s, with which 'restore --at' begins", info.Backup.ID, a.out.bytes(uint64(info.Backup.Bytes)))
			}
			a.out.prose("%s in %s of %s; 'restore --at' reaches sequence %d", a.out.count(uint64(info.Changes), "change"),
				a.out.count(uint64(info.Segments), "segment"), a.out.bytes(uint64(info.Bytes)), info.Last)
		})
	})
}

// archived is write for a database that keeps its changes from now on, if it does not yet.
func (a *app) archived(dir string, f func(*db.DB) error) error {
	o := &db.Options{ErrorIfMissing: true}
	if r, err := db.RecordedOptions(dir, nil); err == nil && r.Options.Changes == (db.ChangeRetention{}) {
		o.Changes = keptChanges(dir)
	}
	return a.open(dir, o, f)
}

// stopArchiving lets a database keep no more changes for a repository. One that keeps none does not begin to. If
// nothing was stopped, the name of the repository may be wrong, and the changes for the right one would fill the disk.
func (a *app) stopArchiving(dir, name string, repo *backup.Repository) error {
	nothing := fmt.Errorf("sievedb: %s keeps no changes for %s", dir, name)
	if !keepsChanges(dir) {
		return a.read(dir, func(*db.DB) error { return nothing })
	}
	return a.write(dir, func(store *db.DB) error {
		before, err := store.Cursors()
		if err != nil {
			return err
		}
		if err := repo.StopArchiving(a.ctx, store); err != nil {
			return err
		}
		after, err := store.Cursors()
		if err == nil && len(after) == len(before) {
			err = nothing
		}
		return err
	})
}

func (a *app) listBackups(args []string) error {
	repo, err := repository(args[0])
	if err != nil {
		return err
	}
	infos, err := repo.List(a.ctx)
	if err != nil && len(infos) == 0 {
		return err
	}
	if infos == nil {
		infos = []backup.Info{}
	}
	windows, windowsErr := repo.Windows(a.ctx)
	if err == nil {
		err = windowsErr
	}
	if windows == nil {
		windows = []backup.Window{}
	}
	list := struct {
		Backups []backup.Info
		Windows []backup.Window
	}{infos, windows}
	printErr := a.out.result(list, func() {
		a.printBackups(infos)
		for _, w := range windows {
			a.out.printf("restore --at: %v\n", w)
		}
	})
	return errors.Join(err, printErr) // one damaged description does not hide the other backups
}

func (a *app) printBackups(infos []backup.Info) {
	t := a.out.table("id", "database", "+time", "sequence", "files", "bytes", "+new bytes", "+made by")
	for _, i := range infos {
		t.row(i.ID, fmt.Sprintf("%q", i.Database), i.Time.Format(time.RFC3339), i.Sequence, i.Files, size(i.Bytes), size(i.BytesStored), i.Engine)
	}
	t.print()
}

func (a *app) restore(args []string, id, database string) error {
	repo, err := repository(args[0])
	if err != nil {
		return err
	}
	stop := a.waiting("restoring", nil)
	info, err := repo.Restore(a.ctx, id, args[1], &backup.RestoreOptions{Database: database})
	stop()
	if err != nil {
		return err
	}
	return a.out.result(info, func() {
		a.out.prose("%s: %s of %s; last sequence %d", info.ID, a.out.count(uint64(info.Files), "file"), a.out.bytes(uint64(info.Bytes)), info.Sequence)
	})
}

func (a *app) verify(args []string) error {
	repo, err := repository(args[0])
	if err != nil {
		return err
	}
	stop := a.waiting("verifying", nil)
	r, err := repo.Verify(a.ctx)
	stop()
	if err != nil {
		return err
	}
	err = a.out.result(r, func() {
		for _, f := range r.Faults {
			a.out.printf("%s\n", a.out.style(styleFault, f.String()))
		}
		a.out.prose("%s, %s, %s read; %s", a.out.count(uint64(r.Backups), "backup"), a.out.count(uint64(r.Objects), "object"),
			a.out.bytes(uint64(r.Bytes)), a.out.count(uint64(len(r.Faults)), "fault"))
	})
	if err == nil && len(r.Faults) > 0 {
		return ended(exitFaults)
	}
	return err
}

func (a *app) prune(args []string, policy backup.Policy) error {
	repo, err := repository(args[0])
	if err != nil {
		return err
	}
	stop := a.waiting("pruning", nil)
	r, err := repo.Prune(a.ctx, policy)
	stop()
	if err != nil {
		return err
	}
	return a.out.result(r, func() {
		a.printBackups(r.Removed)
		done := "removed"
		if policy.DryRun {
			done = "would be removed; run it without --dry-run to do it"
		}
		a.out.prose("%s kept; the %d above with %s of %s %s", a.out.count(uint64(len(r.Kept)), "backup"), len(r.Removed),
			a.out.count(uint64(r.Objects), "object"), a.out.bytes(uint64(r.Bytes)), done)
		if r.Waiting > 0 {
			a.out.prose("objects that wait until a running backup ends: %d; a prune after that removes them", r.Waiting)
		}
	})
}
