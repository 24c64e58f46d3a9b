package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/work/follow"
	"github.com/sievedb/sievedb/memtable"
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
func OpenFollower(dir string, opts *Options) (*DB, error) {
	return openAs(dir, opts, true)
}

// newFollower prepares the reading of another process's files.
func (d *DB) newFollower() {
	d.follower = follow.New(follow.Options{
		FS: d.opts.FS, Dir: d.files.Path, MemtableSize: d.opts.Memtables.Size,
		FindLogs: d.findLogs, Closing: d.stop.closing,
		Check:    func(r manifest.Recorded) error { _, _, err := d.expiryPrefixes(r); return err },
		Manifest: manifest.SetOptions{Cmp: d.opts.Comparer, ReadLimit: d.opts.Limits.ManifestRead, NewHandle: tables.NewHandle},
		Drop: func(files []manifest.LevelFile) {
			for _, f := range files {
				d.tables.Drop(f.File)
			}
		},
	})
	d.files.FS, d.set = d.follower.FS(), d.follower.Set()
	d.feeds.found = changes.NewDirectory(d.files.FS, d.files.Path, d.findLogs)
}

// findLogs returns the file system that shows the logs, which may have moved.
func (d *DB) findLogs() (vfs.FS, error) {
	place, err := dbdir.Open(d.files.Path, d.opts.dirOptions())
	if err == nil {
		err = place.FindLogs()
	}
	if err != nil {
		return nil, err
	}
	return place.FS, nil
}

// openFollower is open for a follower.
func (d *DB) openFollower(obsolete *tables.Obsolete) error {
	d.newWorkers(obsolete)
	d.snapshots.Pin() // the writer does not know them
	err := d.follower.Refresh(context.Background(), d.showView)
	if follow.IsGap(err) {
		d.opts.Logger.Warn("a follower shows the database up to a gap in its logs", "err", err)
	} else if err != nil {
		return errors.CombineErrors(err, d.follower.Close())
	}
	d.report.Manifest = d.follower.ManifestName()
	if d.opts.FollowInterval > 0 {
		base.GoIn(&d.background, d.followLoop)
	}
	d.openTablesAhead()
	return nil
}

// showView makes a view that of the readers.
func (d *DB) showView(v follow.View) {
	s := &lookup.State{Version: v.Version}
	for _, m := range v.Memtables {
		s.Imm = append(s.Imm, &lookup.Memtable{Memtable: m.Memtable, LogNum: m.LogNum})
	}
	if len(s.Imm) > 0 {
		s.Mem, s.Imm = s.Imm[0], s.Imm[1:]
	} else {
		s.Mem = &lookup.Memtable{Memtable: memtable.New(d.opts.Comparer, memtable.Slack)}
	}
	if d.scans.Expiry != nil {
		all, _, _ := d.expiryPrefixes(v.Recorded) // Check was called before
		d.scans.Expiry.SetPrefixes(all)
		d.scans.Expiry.Advance(v.Recorded.Time)
	}
	d.finder.VisibleSeq.Store(v.Seq) // first: a compaction of the writer may have dropped what older numbers see
	d.finder.State.Store(s)
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
	return d.follower.Refresh(ctx, d.showView)
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
			d.reportBackground(err)
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
