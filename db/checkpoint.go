package db

import (
	"context"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/report"
)

// CheckpointOptions configure a checkpoint.
type CheckpointOptions struct {
	// Flush flushes the memtables first, so that no log has to be copied and the checkpoint
	// opens faster. Without it at most the size of the memtables is copied.
	Flush bool
}

// Checkpoint makes the directory dir, which must not exist, with the state of the store at one moment:
// all writes that were acknowledged before the call, and none that began after it. dir opens as a
// database, with SieveDB, LevelDB and goleveldb. It shares the bytes of tables and full logs by hard
// links, so the time depends on the number of tables and not on their size; where the file system
// cannot link, they are copied. Writers wait while the state is noted, which is less than a new log
// takes.
//
// When it returns nil, dir is durable and complete. After an error or a crash it does not exist; a directory with its
// name and ".checkpoint" may remain, which the next call for dir removes. If another user owns that directory or can
// write in it, the error matches vfs.ErrNotOwn. nil options mean the defaults. If ctx is done, it returns the error of
// ctx. It works on a read-only store and on a follower too: they write what the logs have as tables. So a follower can
// copy a database that LevelDB or goleveldb has open. dir must not be within the database's directories, also not
// through a symbolic link; only package backup makes checkpoints in the subdirectory "backup". A closed store returns
// ErrClosed, and a call from a function of the EventListener ErrInListener. It may be called from any goroutine,
// several times at once for different directories.
func (d *DB) Checkpoint(ctx context.Context, dir string, o *CheckpointOptions) (report.Checkpoint, error) {
	if err := d.guardUnder(ctx, "Checkpoint", toWait); err != nil {
		return report.Checkpoint{}, err
	}
	dest, err := manifest.AbsoluteDir(d.opts.FS, dir)
	if err == nil && o != nil && o.Flush && !d.opts.ReadOnly {
		err = d.flusher.FlushInPause()
	}
	if err != nil {
		return report.Checkpoint{}, err
	}
	s, err := d.takeState()
	if err != nil {
		return report.Checkpoint{}, err
	}
	returned := false
	defer func() {
		if !returned { // the file system panics
			_ = s.Release()
		}
	}()
	from := checkpoint.Options{
		FS: d.opts.FS, Dir: d.files.Path, LogDir: d.dir.Logs.Dir(), Dest: dest, Open: d.files.FS.Open, Tables: d.writers.ofLevel(0, d.writers.plan.FlushBits(s.Entries())), Closed: d.closed.Load,
	}
	if d.follower != nil {
		from.Linked = d.follower.Pinned
	}
	info, err := checkpoint.Make(ctx, from, s)
	returned = true
	return info, errors.CombineErrors(err, s.Release())
}

// Dir returns the absolute path of the database's directory on Options.FS. It is the same after Close,
// and empty for a nil DB. Any goroutine may call it.
func (d *DB) Dir() string {
	if d == nil {
		return ""
	}
	return d.files.Path
}

// takeState returns the present state for a checkpoint. Close waits until it is released.
func (d *DB) takeState() (s *checkpoint.State, err error) {
	err = d.commit.Lead(context.Background(), func(l *commit.Leader) (err error) {
		if d.opts.ReadOnly {
			s = d.takeView()
		} else if err = l.HandOver(); err == nil {
			s, err = checkpoint.Take(d.files.FS, d.files.Path, d.set, func() []uint64 { return d.state().Logs() }, l.LogSize())
		}
		if err != nil {
			return err
		}
		d.background.Add(1) // Close waits for the leader first
		s.Released = d.background.Done
		if !d.opts.ReadOnly {
			s.Whole, s.Seq, s.Logged = true, d.finder.VisibleSeq.Load(), l.Logged()
		}
		return nil
	})
	return s, err
}

// takeView returns what a store that only reads shows.
func (d *DB) takeView() *checkpoint.State {
	s, seq := d.finder.RefAt(nil)
	var mems []*memtable.Memtable
	for _, m := range s.Memtables() {
		mems = append(mems, m.Memtable)
	}
	return checkpoint.TakeView(d.set, s.Version, mems, seq)
}
