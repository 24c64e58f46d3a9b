package rangedel

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Host is the store whose keys are deleted.
type Host interface {
	// Flush writes the memtables to tables.
	Flush() error
	// Lead runs f while no writer writes. If ctx is done while it waits for other writers, it
	// returns the error of ctx. FlushLed, LastSeq, Install and Background are only called by f. From the call of Lead
	// to its end no writer waits for room in level 0: the compaction that would make it may wait
	// for tables that are reserved, and the deletion waits for the writer.
	Lead(ctx context.Context, f func() error) error
	// FlushLed is Flush for the leader.
	FlushLed() error
	// LastSeq returns the last sequence number assigned.
	LastSeq() uint64
	// Install applies an edit with the tables that were written for it, and advances the last
	// sequence number to seq. For snapshots the visible number and the version are replaced at one
	// moment, for other readers the number first. spans and own are those of the call of Delete. gone
	// are the ranges of the removed tables, whose keys transactions cannot find by sequence numbers.
	Install(edit *manifest.Edit, written []*manifest.FileMeta, seq uint64, spans Spans, own []Entry, gone []txn.Range) error
	// NewWriter returns a writer of tables whose entries have a sequence number, each of at least
	// size bytes.
	NewWriter(seq, size uint64) Writer
	// Remove removes a table that Writer.Name named.
	Remove(f *manifest.FileMeta)
	// LastVisible returns the last sequence number that readers see.
	LastVisible() uint64
	// RefVersion returns the current version; the caller unrefs it.
	RefVersion() *manifest.Version
	// WrittenSince reports whether f may have entries above a sequence number that was visible once.
	WrittenSince(f *manifest.FileMeta, seq uint64) bool
	// Pin makes new snapshots pin the state that they read, until unpin is called.
	Pin() (unpin func())
	// OldestUnpinned returns the sequence number of the oldest snapshot that is open and does not
	// pin its state; ok is false if there is none.
	OldestUnpinned() (seq uint64, ok bool)
	// Drop records an edit that only removes tables.
	Drop(edit *manifest.Edit) error
	// Background runs f in the background.
	Background(f func())
	// Closing is closed when the store closes.
	Closing() <-chan struct{}
}

// Compactor is what a Deleter needs of the store's compactions; see compact.Scheduler.
type Compactor interface {
	Hold() (release func())
	Place(files []*manifest.FileMeta) []manifest.LevelFile
	Reserve(pick func(v *manifest.Version) []*manifest.FileMeta) (v *manifest.Version, files []*manifest.FileMeta, release func(), err error)
}

// Writer writes entries in the order of their keys to tables with temporary names; see load.Loader.
type Writer interface {
	Add(kind base.Kind, key, value []byte) error
	Finish() error
	Name() ([]*manifest.FileMeta, error)
	Close() error
}

// Options configure a Deleter.
type Options struct {
	Cmp       *base.Comparer
	Cache     *tables.Cache
	Compactor Compactor
	// Ahead is how many writes may happen during the first attempt of a deletion. Default: a
	// million.
	Ahead uint64
}

// Deleter deletes ranges of one store, one call at a time.
type Deleter struct {
	Options
	host Host

	turn    chan struct{}
	sweeper sweeper
}

// New returns a Deleter.
func New(o Options, host Host) *Deleter {
	if o.Ahead == 0 {
		o.Ahead = defaultAhead
	}
	return &Deleter{Options: o, host: host, turn: make(chan struct{}, 1), sweeper: sweeper{wake: make(chan struct{}, 1)}}
}

// Exclude waits until no deletion runs, and lets none begin until end is called. A load or an ingest is
// installed so: its jump of sequence numbers would overtake a deletion, and it may wait, as the leader,
// for tables that a deletion has reserved. If the store closes, Exclude returns base.ErrClosed.
func (d *Deleter) Exclude(ctx context.Context) (end func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.host.Closing():
		return nil, base.ErrClosed
	}
}

// Entry is another write of the batch.
type Entry struct {
	Kind       base.Kind
	Key, Value []byte
}

// Info says what a call of Delete did.
type Info struct {
	TablesDropped, TablesCovered int
	BytesDropped                 uint64
	Tombstones                   uint64
}

// How far above the last sequence number the tombstones are numbered, which is the number of writes
// that may happen meanwhile. It is less than for a load, so that a load in progress stays above
// several deletions. If more writes happen, a job is repeated with sixteen times as many.
const (
	defaultAhead = base.LoadAhead >> 12
	mostAhead    = base.LoadAhead >> 4
)

// errOvertaken says that more writes happened during a job than it has numbers for.
var errOvertaken = errors.Newf("sievedb: the deletion of a range: more than %d writes happened during it; delete less at a time", mostAhead)

// Delete deletes the keys of spans and makes the writes of own, which ascend, each key once.
func (d *Deleter) Delete(ctx context.Context, spans Spans, own []Entry) (*Info, error) {
	release, err := d.Exclude(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := ctx.Err(); err != nil { // select may have chosen the turn
		return nil, err
	}
	for ahead := d.Ahead; ; ahead <<= 4 {
		j := &job{Deleter: d, ctx: ctx, spans: spans, own: own, ahead: ahead, covered: map[uint64]bool{}}
		err := j.run()
		if err == errOvertaken && ahead < mostAhead {
			continue
		}
		return &j.info, err
	}
}

// job is one call of Delete.
type job struct {
	*Deleter
	ctx   context.Context
	spans Spans
	own   []Entry

	ahead   uint64
	from    uint64            // all entries up to this number are in tables of version
	seq     uint64            // of the first tombstones
	version *manifest.Version // that is read
	dropAll bool              // no snapshot needs a table
	drop    map[*manifest.FileMeta]bool
	covered map[uint64]bool // tables that could be removed, except for a snapshot or a compaction
	writers []Writer
	undo    []func()
	info    Info
}

// run does the job.
func (j *job) run() error {
	defer j.end()
	j.from = j.host.LastVisible()
	if err := j.host.Flush(); err != nil {
		return err
	}
	if err := j.prepare(); err != nil {
		return err
	}
	if err := j.ctx.Err(); err != nil {
		return err
	}
	return j.host.Lead(j.ctx, j.install)
}

// end releases what the job holds.
func (j *job) end() {
	for _, w := range j.writers {
		_ = w.Close()
	}
	for _, f := range slices.Backward(j.undo) {
		f()
	}
}

// prepare does what needs no leadership.
func (j *job) prepare() error {
	j.undo = append(j.undo, j.host.Pin())
	j.dropAll = j.waitForSnapshots()
	v, reserved, release, err := j.Compactor.Reserve(j.removable)
	if err != nil {
		return err
	}
	j.version = v
	j.undo = append(j.undo, release, v.Unref)
	j.drop = make(map[*manifest.FileMeta]bool, len(reserved))
	for _, f := range reserved {
		j.drop[f] = true
	}
	last := j.host.LastVisible()
	if last+j.ahead > base.MaxSeq-numbers {
		return errors.Newf("sievedb: too few sequence numbers for the deletion of a range: %d are used, %d are the limit of the format", last, base.MaxSeq)
	}
	j.seq = last + j.ahead
	return j.writeTombstones(j.seq, v, func(*manifest.FileMeta) bool { return true })
}

// How long a job waits for snapshots from before, and how often it looks.
const (
	snapshotWait = 50 * time.Millisecond
	snapshotLook = time.Millisecond
)

// waitForSnapshots waits a little for the snapshots that do not pin their state, because most
// transactions are short, and reports whether none is left.
func (j *job) waitForSnapshots() bool {
	for end := time.Now().Add(snapshotWait); ; time.Sleep(snapshotLook) {
		if _, open := j.host.OldestUnpinned(); !open {
			return true
		}
		if time.Now().After(end) || j.ctx.Err() != nil {
			return false
		}
	}
}

// numbers is how many sequence numbers a job uses.
const numbers = 3

// removable returns the tables that can be removed whole. Only Reserve calls it, which guards
// Compacting.
func (j *job) removable(v *manifest.Version) (files []*manifest.FileMeta) {
	for level := range v.Levels {
		for _, f := range j.spans.Within(v, level) {
			if j.dropAll && !f.Compacting && j.spans.Encloses(f) {
				files = append(files, f)
			}
		}
	}
	return files
}

// newWriter is Host.NewWriter; the job closes the writer.
func (j *job) newWriter(seq, size uint64) Writer {
	w := j.host.NewWriter(seq, size)
	j.writers = append(j.writers, w)
	return w
}

// writeTombstones writes a tombstone for each live key of the tables of v that are to be read and
// that are not removed.
func (j *job) writeTombstones(seq uint64, v *manifest.Version, read func(*manifest.FileMeta) bool) error {
	var files [manifest.NumLevels][]*manifest.FileMeta
	for level := range v.Levels {
		for _, f := range j.spans.Within(v, level) {
			if j.drop[f] || !read(f) {
				continue
			}
			files[level] = append(files[level], f)
			if j.spans.Encloses(f) {
				j.covered[f.Num] = true
			}
		}
	}
	out := j.newWriter(seq, 0)
	err := j.live(j.ctx, j.runsOf(files), j.spans, func(key []byte) error {
		j.info.Tombstones++
		return out.Add(base.KindDelete, key, nil)
	})
	if err != nil {
		return err
	}
	return out.Finish()
}

// install does what the leader does: no writer writes meanwhile.
func (j *job) install() error {
	if err := j.host.FlushLed(); err != nil {
		return err
	}
	if j.host.LastSeq() >= j.seq {
		return errOvertaken
	}
	defer j.Compactor.Hold()()
	if err := j.lateTables(); err != nil {
		return err
	}
	own := j.newWriter(j.seq+2, math.MaxInt64)
	for _, e := range j.own {
		if err := own.Add(e.Kind, e.Key, e.Value); err != nil {
			return err
		}
	}
	if err := own.Finish(); err != nil {
		return err
	}
	return j.apply()
}

// lateTables deletes the keys that were written after the version was taken. They are in tables that
// were flushed since, or merged from such tables.
func (j *job) lateTables() error {
	known := map[uint64]bool{}
	j.version.Files(func(_ int, f *manifest.FileMeta) { known[f.Num] = true })
	v, reserved, release, err := j.Compactor.Reserve(func(v *manifest.Version) []*manifest.FileMeta {
		return slices.DeleteFunc(j.removable(v), func(f *manifest.FileMeta) bool { return known[f.Num] })
	})
	if err != nil {
		return err
	}
	j.undo = append(j.undo, release, v.Unref)
	for _, f := range reserved {
		j.drop[f] = true
	}
	late := func(f *manifest.FileMeta) bool { return !known[f.Num] && j.host.WrittenSince(f, j.from) }
	return j.writeTombstones(j.seq+1, v, late)
}

// apply names the tables and installs the edit.
func (j *job) apply() error {
	edit := &manifest.Edit{LastSeq: manifest.Num(j.seq + numbers - 1)}
	named, err := j.name(edit)
	if err != nil {
		return err
	}
	var gone []*manifest.FileMeta
	v := j.host.RefVersion()
	v.Files(func(level int, f *manifest.FileMeta) {
		if j.drop[f] {
			gone = append(gone, f)
			edit.Deleted = append(edit.Deleted, manifest.DeletedFile{Level: level, Num: f.Num})
			j.info.BytesDropped += f.Size
		}
	})
	v.Unref()
	j.info.TablesDropped, j.info.TablesCovered = len(edit.Deleted), len(j.covered)
	if err := j.host.Install(edit, named, edit.LastSeq.Value, j.spans, j.own, j.spans.hulls(gone)); err != nil {
		return errors.Wrap(err, "sievedb: the deletion of a range")
	}
	if len(j.covered) > 0 {
		j.sweepLater(edit.LastSeq.Value, j.covered)
	}
	return nil
}

// name names the tables and puts them into the edit. Those of all writers but the first are above
// the first one's, so they go to level 0.
func (j *job) name(edit *manifest.Edit) (named []*manifest.FileMeta, err error) {
	for i, w := range j.writers {
		files, err := w.Name()
		if err != nil {
			for _, f := range named {
				j.host.Remove(f)
			}
			return nil, err
		}
		named = append(named, files...)
		if i == 0 {
			edit.Added = j.Compactor.Place(files)
			continue
		}
		for _, f := range files {
			edit.Added = append(edit.Added, manifest.LevelFile{Level: 0, File: f})
		}
	}
	return named, nil
}
