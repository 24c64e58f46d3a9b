package db

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/work/replay"
	"github.com/sievedb/sievedb/internal/write/commit"
)

// ChangeRetention says how much of the past is kept for DB.Changes: logs after their flush, and the tables of loads and
// ingests, in the subdirectory "changes" of the database. What a cursor needs is kept in any case; see DB.SetCursor.
//
// The database records what it keeps. The zero value is what it has recorded, so an opening that forgets the option
// does not end the history. Without a record it keeps nothing, and Changes is refused.
type ChangeRetention struct {
	// Bytes bounds what is kept. The oldest logs are removed first, one at a time. 0: no limit but
	// Age. Negative: nothing is kept from now on, and Open removes the history with its cursors.
	Bytes int64

	// Age is how long a log is kept after its flush, or after its last write if the database was opened again since.
	// It is looked at when another log is flushed.
	// 0: no limit but Bytes.
	Age time.Duration
}

// ChangeKind says what a Change is.
type ChangeKind uint8

// The kinds of changes. More may be added.
const (
	ChangeBatch       = ChangeKind(changes.Batch)       // a batch, or several that were logged together
	ChangeLoad        = ChangeKind(changes.Load)        // a load
	ChangeIngest      = ChangeKind(changes.Ingest)      // an ingest
	ChangeDeleteRange = ChangeKind(changes.DeleteRange) // a batch that deletes ranges; one that deletes few keys is a ChangeBatch
	ChangeSkipped     = ChangeKind(changes.Skipped)     // changes without an entry under ChangeOptions.Prefix
)

// String returns the kind in words.
func (k ChangeKind) String() string {
	switch k {
	case ChangeBatch:
		return "batch"
	case ChangeLoad:
		return "load"
	case ChangeIngest:
		return "ingest"
	case ChangeDeleteRange:
		return "delete range"
	case ChangeSkipped:
		return "skipped"
	}
	return fmt.Sprintf("ChangeKind(%d)", uint8(k))
}

// Change is an atomic change of the database. It is valid until the loop over DB.Changes continues.
type Change struct {
	Kind ChangeKind
	// First and Last are its sequence numbers. Last is the position to continue from.
	First, Last uint64

	change *changes.Change
	prefix []byte
}

// Entries yields the writes of the change: deleted ranges first, then puts and deletions, for a batch in its order, for
// a load or an ingest in the order of the keys, and for a bulk transaction with tables, which is a ChangeLoad, in the
// order of its tables, so a key may come more than once. Applied in this order they have the effect of the change. TTL
// is what remains of the time to live at this moment; a value that has expired is an EntryDelete. ChangeOptions.Prefix
// applies to puts and deletions. The slices are valid until the next entry and must not be modified. An error, which
// comes last, says that the files of the change cannot be read: ErrChangesGone if they are not kept any more.
func (c Change) Entries() iter.Seq2[BatchEntry, error] {
	return func(yield func(BatchEntry, error) bool) {
		if c.change == nil {
			return
		}
		for e, err := range c.change.Entries(c.prefix) {
			if !yield(BatchEntry{EntryKind(e.Kind), e.Key, e.Value, e.TTL}, err) {
				return
			}
		}
	}
}

// Tables returns the paths of the tables with the entries of a load or an ingest, in the order of their keys. Those of
// a bulk transaction may overlap, and later ones have precedence, as for DB.Ingest. They stay as long as the change is
// kept.
func (c Change) Tables() []string {
	if c.change == nil {
		return nil
	}
	return slices.Clone(c.change.Tables)
}

// AppendRecord appends the puts and deletions of a batch as they are stored, with the envelopes of values that
// expire, for Batch.UnmarshalBinary. It appends nothing for a load, an ingest, or a batch that only deletes ranges.
func (c Change) AppendRecord(dst []byte) []byte {
	if c.change == nil {
		return dst
	}
	return append(dst, c.change.Record...)
}

// ChangeOptions configure DB.Changes. The zero value of each field is its default.
type ChangeOptions struct {
	// Prefix leaves out puts and deletions whose keys do not begin with it, and batches that have no others.
	// Deleted ranges, loads and ingests are always yielded: compare the bounds of an EntryDeleteRange with the
	// prefix. Keys are yielded whole. For a namespace it is Namespace.Key(nil), and Namespace.ParseKey takes
	// it from the keys. When the loop has reached the end, or waits there, a ChangeSkipped says how far it
	// came. The slice must not change until the loop ends. Default: all.
	Prefix []byte

	// Unsynced yields changes once readers of the database see them. Default: once they are durable, so
	// that no power cut can take back what was yielded.
	Unsynced bool

	// Wait waits at the end for further changes, until the context is done. Default: the loop ends.
	Wait bool
}

// Changes yields the changes after the position since, which is the sequence number of a change, in the order in which
// they were made. If since is in the middle of a change, that change comes first. ChangePositions returns the positions
// there are; 0 is that of an empty database. nil options mean the defaults. The loop ends at the last change, with an
// error, or when its body breaks.
//
// An error is yielded with an empty Change. It is ErrChangesGone, a *ChangesGoneError, if changes after since are not
// kept any more: no change is left out without it. It is ErrChangesAhead if the database has not come as far as since.
// If ctx is done the error is that of ctx, ErrClosed if the database is closed, and ErrInListener as EventListener
// says.
//
// A database that is open for writing needs Options.Changes. A follower and a database that was opened read-only
// yield what the directory has: with a writer that keeps nothing, such as LevelDB, that is the logs that were not
// flushed yet, and a load, an ingest or a deleted range is a gap. Such a feed yields what the follower shows: each
// round begins with a call of Refresh.
//
// What is no change for readers is not yielded: compactions, values that expire, and what
// Compaction.Filter does. Any number of goroutines may read changes at once; they do not delay writers.
func (d *DB) Changes(ctx context.Context, since uint64, o *ChangeOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if o == nil {
			o = &ChangeOptions{}
		}
		err := d.changesUsable(ctx, "Changes", toWait) // for the writer that called the listener
		if err == nil {
			err = d.changeLoop(since, o).Run(ctx, d.changeHost(), func(c *changes.Change) bool {
				return yield(Change{ChangeKind(c.Kind), c.First, c.Last, c, o.Prefix}, nil)
			})
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

func (d *DB) changeLoop(since uint64, o *ChangeOptions) *changes.Loop {
	l := &changes.Loop{Source: d.feeds.found, Since: since, Unsynced: o.Unsynced, Wait: o.Wait}
	if d.feeds.kept != nil {
		l.Source = d.feeds.kept
	}
	l.ReaderOptions = changes.ReaderOptions{FS: d.files.FS, Cmp: d.opts.Comparer, Expiry: d.scans.Expiry, Prefix: o.Prefix}
	return l
}

// changesUsable returns why the changes cannot be read at all.
func (d *DB) changesUsable(ctx context.Context, method string, n need) error {
	if err := d.guardUnder(ctx, method, n); err != nil {
		return err
	}
	if d.feeds.kept == nil && !d.opts.ReadOnly {
		return errors.Newf("sievedb: %s: the database keeps no changes; set Options.Changes", method)
	}
	return nil
}

// feeds are where changes are read. One of the two is nil, and both are in a store that keeps none.
type feeds struct {
	kept  *changes.Archive   // keeps logs, as Options.Changes says
	found *changes.Directory // finds the changes of a database that is not open for writing here
	ended bool               // this opening ends the history, which is removed
}

// changeHost is what a reader of changes sees of the store.
type changeHost struct {
	visible *atomic.Uint64
	closing <-chan struct{}
	limit   func(ctx context.Context, unsynced bool) (uint64, error)
}

func (d *DB) changeHost() changeHost {
	return changeHost{visible: &d.finder.VisibleSeq, closing: d.stop.closing, limit: d.changeLimit}
}

func (h changeHost) LastVisible() uint64      { return h.visible.Load() }
func (h changeHost) Closing() <-chan struct{} { return h.closing }

func (h changeHost) Limit(ctx context.Context, unsynced bool) (uint64, error) {
	return h.limit(ctx, unsynced)
}

// changeLimit returns the number of the last change that may be yielded.
func (d *DB) changeLimit(ctx context.Context, unsynced bool) (limit uint64, err error) {
	switch {
	case d.follower != nil:
		err = d.Refresh(ctx)
	case d.feeds.kept != nil && !unsynced:
		return min(d.commit.Synced(), d.finder.VisibleSeq.Load()), nil
	case d.feeds.kept != nil && d.commit.Err() == nil:
		limit = d.finder.VisibleSeq.Load()
		return limit, d.commit.HandOver()
	}
	return d.finder.VisibleSeq.Load(), err
}

// WaitForChange waits until Changes with the default options would yield something after the position since, or
// an error, which it returns.
func (d *DB) WaitForChange(ctx context.Context, since uint64) error {
	for _, err := range d.Changes(ctx, since, &ChangeOptions{Wait: true}) {
		return err
	}
	return nil
}

// ChangePositions returns the oldest position from which Changes can yield, and that of the last durable change.
// A copy of the database, such as a checkpoint, continues from its own last position.
func (d *DB) ChangePositions() (oldest, last uint64, err error) {
	if err := d.changesUsable(context.Background(), "ChangePositions", 0); err != nil {
		return 0, 0, err
	}
	if d.feeds.kept == nil {
		last = d.finder.VisibleSeq.Load()
		oldest, err = d.feeds.found.Oldest(last)
		return min(oldest, last), last, err
	}
	last = min(d.commit.Synced(), d.finder.VisibleSeq.Load())
	oldest, err = d.feeds.kept.Oldest()
	return min(oldest, last), last, err
}

// SetCursor records, durably, that a reader of the given name has come to a position: what is after it is kept,
// whatever Options.Changes says, until the cursor is set again or dropped. A cursor that is not moved fills the disk.
// The name has 1 to 1000 bytes. The position is one from which Changes can yield, up to the last visible change,
// durable or not; it may be before that of the cursor as long as that is kept. Otherwise the errors are ErrChangesGone
// and ErrChangesAhead, and ErrReadOnly for a store that does not write. It needs Options.Changes, and cursors do not
// outlive its end. When the history restarts, a cursor from before stays, and keeps nothing.
func (d *DB) SetCursor(name string, position uint64) error {
	if err := d.cursorsUsable("SetCursor"); err != nil {
		return err
	}
	return d.orReadOnly(d.feeds.kept.SetCursor(name, position, d.finder.VisibleSeq.Load()))
}

// DropCursor forgets a cursor. It does nothing if there is none of that name. On a full disk it removes what only that
// cursor keeps before it records that the cursor is gone.
func (d *DB) DropCursor(name string) error {
	if err := d.cursorsUsable("DropCursor"); err != nil {
		return err
	}
	return d.orReadOnly(d.feeds.kept.DropCursor(name))
}

// Cursors returns the positions of all cursors by name.
func (d *DB) Cursors() (map[string]uint64, error) {
	if err := d.cursorsUsable("Cursors"); err != nil {
		return nil, err
	}
	return d.feeds.kept.Cursors(), nil
}

func (d *DB) cursorsUsable(method string) error {
	err := d.changesUsable(context.Background(), method, toWrite)
	if err != ErrClosed && d.commit.Frozen() {
		return ErrReadOnly
	}
	return err
}

// forCommit returns what the write path calls to keep changes, nil if none are kept.
func (f feeds) forCommit(set *manifest.Set) *commit.Changes {
	kept := f.kept
	if kept == nil {
		return nil
	}
	return &commit.Changes{
		SwitchLog:  kept.SwitchLog,
		KeepFailed: func(logged, last uint64) error { return kept.RecordFailed(logged, last, set.ManifestNum()) },
		Wake: func() {
			if kept.Watched() {
				kept.Wake()
			}
		},
	}
}

// retireLog removes a log that is not needed any more, or keeps it for Changes.
func (f feeds) retireLog(dir *tables.Directory, num uint64) {
	if f.kept == nil {
		dir.Remove(dir.File(base.FileLog, num))
		return
	}
	err := dir.Verify()
	if err == nil {
		err = f.kept.Keep(num)
	}
	if err != nil {
		dir.Logger.Warn("a log cannot be moved to the kept ones; the next flush tries again", "log", num, "err", err)
	}
}

// adoptChanges decides which changes the store keeps.
func (o *opening) adoptChanges(recorded *manifest.Options) (err error) {
	if o.opts.Changes == (ChangeRetention{}) && !o.opts.ReadOnly {
		o.opts.Changes = recordedRetention(recorded)
	}
	o.feeds.ended = o.opts.Changes.Bytes < 0 && !o.opts.KeepRecord && !o.opts.ReadOnly
	if o.opts.Changes.Bytes < 0 {
		o.opts.Changes = ChangeRetention{}
	}
	if keep := o.opts.Changes; keep != (ChangeRetention{}) && !o.opts.ReadOnly {
		o.feeds.kept, err = changes.New(changes.Options{FS: o.files.FS, Dir: o.files.Path, Logger: o.opts.Logger, Bytes: uint64(keep.Bytes), Age: keep.Age})
	}
	return err
}

// planChanges compares the kept changes with what was recovered.
func (o *opening) planChanges(r *replay.Replayer, files manifest.DirFiles, state manifest.State) (*changes.Plan, error) {
	if o.feeds.kept == nil {
		return nil, nil
	}
	return o.feeds.kept.Examine(changes.NewRecovered(files, state, r.LastSeq(), r.Salvaged()))
}

// keepChanges moves the recovered logs to the kept ones. The history continues in log num.
func (o *opening) keepChanges(plan *changes.Plan, num uint64) {
	if o.feeds.ended {
		if err := changes.Destroy(o.files.FS, o.files.Path); err != nil {
			o.opts.Logger.Warn("cannot remove an unneeded file of the change feed", "err", err)
		}
	}
	if plan == nil {
		return
	}
	if err := o.feeds.kept.Start(plan, num); err != nil {
		o.opts.Logger.Error("changes are not kept", "err", err)
		o.listenerCalls.reportBackground(err)
	}
}

// The errors of Changes.
var (
	// ErrChangesGone says that changes after a position are not kept any more. The error is a
	// *ChangesGoneError, which has the oldest position.
	ErrChangesGone = changes.ErrGone
	// ErrChangesAhead says that a position is beyond the last change of the database.
	ErrChangesAhead = changes.ErrAhead
)

// ChangesGoneError says which position is the oldest one, and why. Fields: Since, Oldest, Why.
type ChangesGoneError = changes.GoneError
