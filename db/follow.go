package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/work/follow"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// OpenFollower opens the database in dir for reading while another process, or this one, may have it
// open for writing with SieveDB, LevelDB or goleveldb. It takes no lock and writes no byte, and it works
// as well if no process has the database open. Writing methods of the DB return ErrReadOnly.
//
// A follower shows the database as it was at one moment, and Refresh or Options.FollowInterval move that
// moment forward. It never shows a part of a batch, and it never moves back. Reads during a Refresh see
// the old moment or the new one. Iterators, snapshots and transactions keep theirs: the tables that they
// need are read through open files, also when the writer has removed them. So a follower has each table
// of the database open, whatever Options.Cache.MaxOpenFiles says, and the content of the logs in memory.
// It does not see writes that the writer has in its own memory, as with Buffered.
//
// The errors are those of Open, without ErrLocked. On Windows the writer has to be SieveDB: others do not share their
// files, or fail if somebody reads CURRENT while they replace it.
func OpenFollower(dir string, opts *Options) (*DB, error) { return openAs(dir, opts, true) }

// follower reads the files of another process.
type follower struct {
	*follow.Follower
	show func(follow.View) // makes a view that of the readers
}

func (f *follower) refresh(ctx context.Context) error { return f.Refresh(ctx, f.show) }

// newFollower prepares the reading of another process's files.
func (o *opening) newFollower() {
	opts, path, values := o.opts, o.files.Path, (*expiry.Policy)(nil)
	if !opts.Expiry.Raw {
		values = expiry.NewGrowing(nil, opts.Expiry.Clock) // each view has the prefixes
	}
	findLogs := func() (vfs.FS, error) { return findLogs(path, opts.dirOptions()) }
	current := &o.finder.Current
	o.follower = &follower{
		Follower: follow.New(follow.Options{
			FS: opts.FS, Dir: path, MemtableSize: opts.Memtables.Size,
			FindLogs: findLogs, Closing: o.stop.closing,
			Check:    func(r manifest.Recorded) error { _, _, err := opts.expiryPrefixes(r, path); return err },
			Manifest: manifest.SetOptions{Cmp: opts.Comparer, ReadLimit: opts.Limits.ManifestRead, NewHandle: tables.NewHandle},
			Drop: func(files []version.LevelFile) {
				for _, f := range files {
					o.tables.Drop(f.File)
				}
			},
		}),
		show: func(v follow.View) {
			if values != nil {
				all, _, _ := opts.expiryPrefixes(v.Recorded, path) // Check was called before
				values.SetPrefixes(all)
				values.Advance(v.Recorded.Time)
			}
			mems := make([]*lookup.Memtable, len(v.Memtables))
			for i, m := range v.Memtables {
				mems[i] = &lookup.Memtable{Memtable: m.Memtable, LogNum: m.LogNum}
			}
			showReadOnly(current, opts.Comparer, v.Version, mems, v.Seq)
		},
	}
	o.files.FS, o.set, o.scans.Expiry = o.follower.FS(), o.follower.Set(), values
	o.feeds.found = changes.NewDirectory(o.files.FS, path, findLogs)
}

// findLogs returns the file system that shows the logs of a directory, which may have moved.
func findLogs(dir string, o dbdir.Options) (vfs.FS, error) {
	place, err := dbdir.Open(dir, o)
	if err == nil {
		err = place.FindLogs()
	}
	if err != nil {
		return nil, err
	}
	return place.FS, nil
}

// openFollower is open for a follower.
func (o *opening) openFollower() error {
	o.makeWorkers()
	o.snapshots.Pin() // the writer does not know them
	err := o.follower.refresh(context.Background())
	if follow.IsGap(err) {
		o.opts.Logger.Warn("a follower shows the database up to a gap in its logs", "err", err)
	} else if err != nil {
		return errors.CombineErrors(err, o.follower.Close())
	}
	o.report.Manifest = o.follower.ManifestName()
	return nil
}

// IsFollower reports whether OpenFollower opened the store.
func (d *DB) IsFollower() bool { return d != nil && d.follower != nil }

// Refresh makes a follower show what the writer has written since. It waits for another Refresh that is
// in progress. After an error, or if ctx is done, the DB shows what it showed before, and a later Refresh
// may succeed. One error means that it never will: if the database was restored, repaired or replaced by
// an older one, the follower must be opened again.
func (d *DB) Refresh(ctx context.Context) error {
	if err := d.guardUnder(ctx, "Refresh", 0); err != nil {
		return err
	}
	if d.follower == nil {
		return errNoFollower("Refresh")
	}
	return d.follower.refresh(ctx)
}

// Lag returns what a follower lacks of what the files of the database have. It reads what was added since the
// last Refresh, or the whole MANIFEST and its logs if the writer has opened the database again. If the database was
// restored, repaired or replaced by an older one, the error is that of Refresh.
func (d *DB) Lag() (report.Lag, error) {
	switch {
	case d == nil || d.closed.Load():
		return report.Lag{}, ErrClosed
	case d.follower == nil:
		return report.Lag{}, errNoFollower("Lag")
	}
	return d.follower.Lag()
}

func errNoFollower(method string) error {
	return errors.Newf("sievedb: %s: the DB is not a follower; OpenFollower opens one", method)
}

// followLoop refreshes at intervals, until the store closes. The first error of a series is reported.
func (d *DB) followLoop() {
	failing := false
	for d.commit.Pause(d.opts.FollowInterval) {
		err := d.commit.Guard("a refresh", func() error { return d.Refresh(context.Background()) })
		if err != nil && !failing && !d.closed.Load() {
			d.listenerCalls.reportBackground(err)
		}
		failing = err != nil
	}
}

// followFailure returns why a follower does not show what the writer has written.
func (d *DB) followFailure() error {
	if d.follower == nil {
		return nil
	}
	return d.follower.Failure()
}

// endFollowing closes the files of the writer.
func (d *DB) endFollowing() error {
	if d.follower == nil {
		return nil
	}
	return d.follower.Close()
}
