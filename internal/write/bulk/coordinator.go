package bulk

import (
	"context"
	"slices"
	"sync"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// Options are what a Coordinator needs of its store: parts of it, and functions.
type Options struct {
	Cmp       *base.Comparer
	Dir       tables.Directory
	Set       *manifest.Set
	Cache     *tables.Cache
	Compactor Compactor
	Current   *lookup.Current
	Snapshots *lookup.Snapshots
	Recent    *txn.Recent
	Untraced  *txn.Untraced
	Expiry    *expiry.Policy // which values have envelopes

	// Plan gives the filters their bits per key, if these depend on the level. Policy is then the policy whose
	// bits are replaced.
	Plan   *filterplan.Planner
	Policy filter.Policy
	// Known are the policies of the filters that are checked in tables made elsewhere.
	Known []filter.Policy
	// Closing is closed when the store stops writing.
	Closing <-chan struct{}

	// NewTables returns how tables are written now. TableSize returns the size in bytes at which a table ends, of a job
	// that has written that many bytes in others.
	NewTables func() tables.WriterOptions
	TableSize func(written uint64) uint64
	// Flush writes the memtables to tables.
	Flush func() error
	// Lead calls f while no writer writes. If ctx is done while it waits for other writers, it returns the error of
	// ctx.
	Lead func(ctx context.Context, f func(l Leader) error) error
	// IgnoreLevel0 lets no writer wait for room in level 0 until end is called: the compaction that would make it
	// may wait for tables that a deletion has reserved, and the deletion waits for the writer.
	IgnoreLevel0 func() (end func())
	// Apply records an edit and makes its version current, in one read state with what also changes. After an error
	// it removes written, the tables that were written for the edit, once it is certain that the edit is not in force.
	Apply func(edit *manifest.Edit, written []*version.FileMeta, also func(*lookup.State)) error
	// Changes returns the archive of changes, or nil.
	Changes func() *changes.Archive
	// WrittenSince reports whether a table may have entries above a sequence number that was visible once.
	WrittenSince func(f *version.FileMeta, seq uint64) bool
	// Keys calls visit with each visible key of a span until it returns false. The key is valid during the call.
	Keys func(a Span, visit func(key []byte) bool) error
	// InListener reports whether the caller is a function of the store's listener.
	InListener func() bool
	// Background runs f in the background of the store.
	Background func(f func())
}

// Leader is what the leader of the store's writers may do. It is valid during the call of Options.Lead.
type Leader interface {
	// LastSeq returns the last sequence number assigned.
	LastSeq() uint64
	// Flush writes the memtables to tables.
	Flush() error
	// Advance makes seq the last sequence number, assigned and visible, after an edit that has it. certain says
	// that the edit is in force; otherwise it may be, and the next opening would find later writes hidden if their
	// numbers were lower.
	Advance(seq uint64, certain bool)
}

// Compactor is what bulk changes need of the store's compactions; see compact.Scheduler.
type Compactor interface {
	ClearLevel0(ctx context.Context, files []*version.FileMeta) error
	Hold() (release func())
	Place(files []*version.FileMeta) []version.LevelFile
	Reserve(pick func(v *version.Version) []*version.FileMeta) (v *version.Version, files []*version.FileMeta, release func(), err error)
	Schedule()
}

// Coordinator makes the bulk changes of one store. It is safe for concurrent use.
type Coordinator struct {
	Options
	// How far above the last sequence number the first attempt of a deletion and an ingest are numbered.
	deletionAhead, ingestAhead uint64

	turn    chan struct{} // a deletion runs, or a load or an ingest is installed
	sweeper sweeper

	mu        sync.Mutex // guards the fields below
	loads     []*Loader  // the present ones
	ended     error      // why no load begins any more
	discarded []*Loader  // by GiveUp
}

// New returns a Coordinator.
func New(o Options) *Coordinator {
	return &Coordinator{
		Options: o, deletionAhead: leastDeletionAhead, ingestAhead: ingestAhead,
		turn: make(chan struct{}, 1), sweeper: sweeper{wake: make(chan struct{}, 1)},
	}
}

// exclude waits until no deletion of a range runs, and lets none begin until end is called. If the store closes, it
// returns base.ErrClosed.
func (c *Coordinator) exclude(ctx context.Context) (end func(), err error) {
	select {
	case c.turn <- struct{}{}:
		if err = ctx.Err(); err == nil { // select may have chosen the turn
			return func() { <-c.turn }, nil
		}
		<-c.turn
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.Closing:
		err = base.ErrClosed
	}
	return nil, err
}

// errDrained says that the last snapshot that a job had to respect was closed.
var errDrained = errors.Sentinel("sievedb: the last snapshot from before was closed")

// goOn returns why a job must stop: the store closes, ctx is done, or drained, which may be nil, is closed.
func (c *Coordinator) goOn(ctx context.Context, drained <-chan struct{}) error {
	select {
	case <-c.Closing:
		return base.ErrClosed
	case <-drained:
		return errDrained
	default:
		return ctx.Err()
	}
}

// A bulk change uses a small share of the remaining sequence numbers at most, so that all of them together never
// exhaust them.
const shareShift = 24

// reserve returns a sequence number for the entries of a change that begins when last is the last one assigned: ahead
// above it, or less if few numbers remain.
func reserve(what string, last, ahead uint64) (uint64, error) {
	if ahead = min(ahead, (base.MaxSeq-last)>>shareShift); ahead == 0 {
		return 0, errTooFew(what, last)
	}
	return last + ahead, nil
}

// errTooFew returns the error of a store that has used almost all sequence numbers.
func errTooFew(what string, last uint64) error {
	return errors.Newf("too few sequence numbers for %s: %d are used, %d are the limit of the format", what, last, base.MaxSeq)
}

// lastVisible returns the last sequence number that readers see.
func (c *Coordinator) lastVisible() uint64 { return c.Snapshots.Visible(c.Current) }

// refVersion returns the current version; the caller unrefs it.
func (c *Coordinator) refVersion() *version.Version { return c.Current.Ref().Version }

// remove removes tables that are in no version.
func (c *Coordinator) remove(files []*version.FileMeta, kind base.FileKind) {
	for _, f := range files {
		c.Dir.Remove(c.Dir.File(kind, f.Num))
	}
}

// GiveUp ends the present loads, which fail with why from then on, and lets no other one begin.
func (c *Coordinator) GiveUp(why error) {
	c.mu.Lock()
	c.ended = why
	loads := slices.Clone(c.loads)
	c.mu.Unlock()
	loads = slices.DeleteFunc(loads, func(l *Loader) bool { return !l.giveUp(why) }) // they take themselves off the list
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discarded = loads
}

// Discarded returns the error for the loads that GiveUp has ended, nil if there was none and the second time. how
// says why.
func (c *Coordinator) Discarded(how string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.discarded {
		err = errors.CombineErrors(err, errors.Newf("sievedb: %s during a %s that was begun at %s and not committed; it is discarded", how, l.what, l.where))
	}
	c.discarded = nil
	return err
}
