package compact

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/filterplan"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
)

// Host is the store whose tables a Scheduler compacts. Its methods may be called from any goroutine. Those that are
// called with the Scheduler's lock held must not wait for a goroutine that calls the Scheduler.
type Host interface {
	// RefVersion returns the current version; the caller unrefs it. The lock is held.
	RefVersion() *version.Version
	// OldestSnapshot returns the sequence number up to which all current and future
	// readers see every entry. The lock is held.
	OldestSnapshot() uint64
	// Snapshots returns the sequence numbers at which readers read, in ascending order,
	// including the newest visible one. The lock is held.
	Snapshots() []uint64
	// Apply records an edit in the MANIFEST and makes its version the current one. If it
	// fails, the host removes written, the tables that were written for the edit.
	Apply(edit *manifest.Edit, written []*version.FileMeta) error
	// BeginFilter is called before a merge that may drop or replace values. It returns the smallest sequence number
	// that no open snapshot sees. Until end, which is called after Apply, the tables that a new snapshot reads are
	// those of the moment at which it was opened, if pin is set.
	BeginFilter(pin bool) (from uint64, end func())
	// OldestTime returns the oldest time, by Options.Expiry, of an open snapshot, or the present
	// time. Present and later readers hide what has expired by then. The lock is held.
	OldestTime() uint64
}

// Options configure a Scheduler.
type Options struct {
	Dir      tables.Directory
	Cmp      *base.Comparer
	Cache    *tables.Cache
	Obsolete *tables.Obsolete
	Plan     *filterplan.Planner
	// NewFileNum returns the number for a new file.
	NewFileNum func() uint64
	// NewWriter returns a writer of tables for a level. If the filters' bits per key depend on
	// the level, they are those of the argument.
	NewWriter func(level int, bits filterplan.Bits) *tables.Writer
	// ReadPolicies are the filter policies that the store reads.
	ReadPolicies []filter.Policy
	ReadOnly     bool // nothing is compacted
	// Tuning is what Tune can change.
	Tuning Tuning

	// FilterCalls runs each piece of a merge that may call Tuning.Filter: it calls work and returns
	// its error. The filter's results have at most MaxValue bytes.
	FilterCalls func(work func() error) error
	MaxValue    int
	// Slots, if not nil, is the store's part of slots that several stores share: those of
	// MaxConcurrent are only the most that this store uses. See slots.go.
	Slots *share.Slots
	// Expiry says which values have expired. Merges drop them; see expiry.go.
	Expiry *expiry.Policy

	// Begin and End are called before and after each compaction.
	Begin, End func(Info)
	// Guard calls f and returns its error. If f panics, it returns an error for that and ends all edits of the store.
	// Fail ends all edits because of such an error. Both are called without mu.
	Guard func(during string, f func() error) error
	Fail  func(err error)
	// Ended is called with the result of each compaction, nil for success, for each collection of
	// values and each weighing, after it is visible in Status; and with nil after the wait that a failed collection
	// causes. Writers may go at another rate then.
	Ended  func(error)
	Logger *slog.Logger
}

// Tuning is the part of the options that can be changed while a Scheduler works.
type Tuning struct {
	MaxConcurrent     int // slots; see subcompaction.go
	L0Trigger         int
	L0SlowdownTrigger int
	MaxLevelBase      uint64 // bytes
	TableSize         uint64 // bytes; 0: tables grow with the last level, up to LargestTable
	LargestTable      uint64 // bytes
	MaxBytesPerSecond int64  // 0: no limit; see pace.go
	// Table applies to new tables.
	Table sstable.WriterOptions
	// Filter, if not nil, may drop or replace values that are merged; see filter.go.
	Filter func(key, value []byte) (replacement []byte, keep bool)
}

// Info describes a compaction. BytesWritten, OutputTables, Subcompactions, ValuesDropped,
// ValuesExpired, Duration and Err are set at its end.
type Info = report.CompactionInfo

// Counters are the totals of the compactions that a Scheduler has run.
type Counters struct {
	Compactions, Subcompactions, TrivialMoves uint64
	BytesRead, BytesWritten                   uint64
	ValuesDropped                             uint64 // by Tuning.Filter
	ValuesExpired, TablesExpired              uint64 // ValuesExpired without those in such tables
}

// Scheduler decides when tables are compacted, and compacts them.
type Scheduler struct {
	o      Options
	host   Host
	tuning atomic.Pointer[Tuning] // replaced as a whole
	totals totals
	rate   throttle.Rate // has its own lock
	// waitsFor is the sequence number that all readers must see before more space can be freed; math.MaxUint64 for
	// none.
	waitsFor atomic.Uint64

	background sync.WaitGroup // goroutines that may still use the store

	// mu guards the fields below. cond is signalled whenever one of them changes, and when wake is called.
	mu      sync.Mutex
	cond    *sync.Cond
	state   state       // what may begin: state.go
	work    work        // what runs: running.go
	slots   slots       // how much may run: slots.go
	jobs    []*mergeJob // with pieces that have not begun: subcompaction.go
	outcome outcome     // what became of it: outcome.go
	burst   burst       // burst.go
	relief  relief      // relief.go
}

// totals are the fields of Counters.
type totals struct {
	compactions, subcompactions, trivialMoves, bytesRead, bytesWritten, valuesDropped, valuesExpired, tablesExpired atomic.Uint64
}

// New returns a Scheduler, which does nothing until Schedule is called.
func New(o Options, host Host) *Scheduler {
	s := &Scheduler{
		o: o, host: host, state: newState(o.ReadOnly), slots: slots{shared: o.Slots},
		work: work{progress: map[*pick.Compaction]*progress{}},
	}
	s.cond = sync.NewCond(&s.mu)
	s.waitsFor.Store(math.MaxUint64)
	s.tuning.Store(&o.Tuning)
	return s
}

// Tune replaces the Tuning. Running compactions and upgrades keep what they began with. If there
// are fewer slots than in use, those that become free are not used again.
func (s *Scheduler) Tune(t Tuning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tuning.Store(&t)
	s.scheduleLocked()
	s.cond.Broadcast()
}

// Close prevents new work. Running work ends soon with base.ErrClosed; Wait waits for it.
func (s *Scheduler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.isClosed() {
		s.state.close()
		s.cond.Broadcast()
	}
}

// Stop prevents new compactions and upgrades because err has ended all edits of the store.
// Compact and UpgradeFilters then return err.
func (s *Scheduler) Stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.stop(err)
	s.cond.Broadcast()
}

// Wait waits for the work that was running when Close was called.
func (s *Scheduler) Wait() { s.background.Wait() }

// wake wakes all waiting goroutines.
func (s *Scheduler) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cond.Broadcast()
}

// Status is the current activity of a Scheduler.
type Status struct {
	Running, Slots int
	Flushing       bool
	Gathering      bool // due compactions wait for the end of a burst of writes
	Waiting        int  // compactions with pieces that have not begun
	// Err is the last compaction's error, ParkedErr that of the last one that met corruption. The inputs of all such
	// compactions, ParkedTables in number, are not compacted any more.
	Err, ParkedErr error
	ParkedTables   int
	Pauses         int // calls of Pause in effect
	// TablesToMerge is version.Version.TablesToMerge.
	TablesToMerge int
}

// Status returns the current activity of the Scheduler.
func (s *Scheduler) Status() Status {
	v := s.host.RefVersion()
	defer v.Unref()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Running: len(s.work.running), Slots: s.slots.used, Flushing: s.work.flushing, Gathering: s.burst.watching,
		Waiting: len(s.jobs), Err: s.outcome.err, ParkedErr: s.outcome.parkedErr, ParkedTables: s.outcome.parked,
		Pauses: s.state.counts[modePaused], TablesToMerge: pick.From(v).TablesToMerge(s.pickOptions()),
	}
}

// Counters returns the totals of the compactions so far.
func (s *Scheduler) Counters() Counters {
	t := &s.totals
	return Counters{
		Compactions: t.compactions.Load(), Subcompactions: t.subcompactions.Load(), TrivialMoves: t.trivialMoves.Load(),
		BytesRead: t.bytesRead.Load(), BytesWritten: t.bytesWritten.Load(), ValuesDropped: t.valuesDropped.Load(),
		ValuesExpired: t.valuesExpired.Load(), TablesExpired: t.tablesExpired.Load(),
	}
}

// pickOptions returns the options for choosing a compaction now. mu is held.
func (s *Scheduler) pickOptions() pick.Options {
	t := s.tuning.Load()
	expired, by := s.expired()
	return pick.Options{
		L0Trigger:    t.L0Trigger,
		MaxLevelBase: t.MaxLevelBase,
		TableSize:    t.TableSize,
		LargestTable: t.LargestTable,
		OldestReader: s.host.OldestSnapshot(),
		Quiet:        s.burst.quiet,
		Expired:      expired,
		ExpiredBy:    by,
		NoValues:     time.Now().Before(s.outcome.collectFrom),
		Running:      s.work.running,
		Claimed:      s.work.claimed,
	}
}

// Place chooses the levels of a load's tables. It must be called under a Hold that lasts until they are in the current
// version. Otherwise a concurrent compaction could write tables that overlap them.
func (s *Scheduler) Place(files []*version.FileMeta) []version.LevelFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.host.RefVersion()
	defer v.Unref()
	return pick.From(v).Place(files, s.pickOptions())
}

// SnapshotClosed starts compactions that have waited for the end of a snapshot.
func (s *Scheduler) SnapshotClosed() {
	if seq := s.waitsFor.Load(); seq < math.MaxUint64 && s.host.OldestSnapshot() >= seq {
		s.Schedule()
	}
}

// Schedule starts compactions that are due and allowed.
func (s *Scheduler) Schedule() {
	s.o.Expiry.Now() // not under the lock: it calls the user's clock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleLocked()
}

// scheduleLocked gives free slots to compactions that are due, and remaining ones to pieces of running compactions.
func (s *Scheduler) scheduleLocked() {
	if !s.startDueLocked() && s.slots.claimers == 0 {
		s.slots.shared.Forgo()
	}
}

// startDueLocked is the work of scheduleLocked. It reports whether it waits for a slot that stores share.
func (s *Scheduler) startDueLocked() (waits bool) {
	for s.state.mode() < modeHeld && s.slots.used+s.slots.claimers < s.tuning.Load().MaxConcurrent {
		if s.slots.shared != nil && s.slots.claimers > 0 {
			return false // the next shared slot is theirs
		}
		var c *pick.Compaction
		if s.state.mode() == modeFree {
			c = s.pickLocked()
		}
		switch {
		case c == nil && len(s.jobs) == 0:
			s.forgetErrorLocked()
			return false
		case !s.wantSlotLocked(c):
			return true
		case c != nil:
			s.startLocked(c)
			s.work.automatic++
			base.GoIn(&s.background, func() { s.compactInBackground(c) })
		default:
			s.helpLocked()
		}
	}
	return false
}

// startLocked claims the inputs of c and a slot. The caller has a reference to c.Version, which
// done drops. The Scheduler must be open; Wait waits until end is called, after done, or finish.
func (s *Scheduler) startLocked(c *pick.Compaction) {
	s.background.Add(1)
	s.work.begin(c)
	s.slots.take()
	s.relief.begin(c)
}

// done releases the inputs and the slot of c. The inputs of a compaction that met corruption stay
// claimed: trying again would fail again (basho/eleveldb issue 23). Reads of other keys continue.
func (s *Scheduler) done(c *pick.Compaction, err error) {
	parked := atFault(c, err)
	s.mu.Lock()
	s.work.end(c, parked)
	s.relief.end(c, err)
	s.outcome.park(parked, err)
	s.slots.free()
	s.cond.Broadcast()
	s.mu.Unlock()
	c.Version.Unref()
}

// finish is done and end, for callers that start nothing in between.
func (s *Scheduler) finish(c *pick.Compaction, err error) {
	defer s.end()
	s.done(c, err)
}

// end removes the files that a compaction made obsolete. That may take as long as a small compaction, so the next
// one has begun before.
func (s *Scheduler) end() {
	defer s.background.Done()
	s.o.Obsolete.Remove()
}

func (s *Scheduler) compactInBackground(c *pick.Compaction) {
	_ = s.o.Guard("a compaction", func() error { s.compactPicked(c); return nil })
}

// compactPicked runs c. After a failure the next automatic compaction is delayed.
func (s *Scheduler) compactPicked(c *pick.Compaction) {
	defer s.automaticEnded() // also if runtime.Goexit ends the goroutine, and not before the removal of files
	defer s.end()
	if c.Weigh != nil {
		s.weigh(c.Version, c.Level, c.Weigh)
		s.done(c, nil)
		s.Schedule()
		s.o.Ended(nil) // others may wait for the table
		return
	}
	err := s.compactAutomatic(c)
	if c.Level == version.ValuesLevel {
		s.noteCollection(err)
	} else if err != base.ErrClosed {
		s.noteOutcome(err)
	}
	if err != base.ErrClosed {
		s.Schedule()
	}
}

// compactAutomatic runs c, and begins a back-off if it fails.
func (s *Scheduler) compactAutomatic(c *pick.Compaction) error {
	err := s.compact(context.Background(), c)
	if c.Level == version.ValuesLevel {
		s.done(c, err)
		return err
	}
	s.beginBackoff(err) // before a flush can make the same inputs be picked again
	s.done(c, err)
	return err
}

// claim waits for a free slot, calls choose and claims the compaction that it returns. While that is nil and busy,
// because the inputs are in use, claim waits and calls it again. If it is nil and not busy, there is nothing to do,
// and claim returns nil. choose is called with mu held.
func (s *Scheduler) claim(ctx context.Context,
	choose func(*version.Version, pick.Options) (c *pick.Compaction, busy bool),
) (*pick.Compaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.scheduleLocked() // a slot may have been kept for this call
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := s.state.endErr(); err != nil {
			return nil, err
		}
		if s.state.mode() == modeHeld {
			s.slots.shared.Forgo()
			s.cond.Wait()
			continue
		}
		if !s.slotFreeLocked() {
			s.slots.claimers++ // the background leaves the next free slot to this call
			s.cond.Wait()
			s.slots.claimers--
			continue
		}
		v := s.host.RefVersion()
		c, busy := choose(v, s.pickOptions())
		if c != nil {
			s.startLocked(c)
			return c, nil
		}
		v.Unref()
		if !busy {
			return nil, nil
		}
		if !s.work.claims() && !s.work.flushing {
			return nil, errors.Wrap(s.outcome.parkedErr,
				"sievedb: tables in the range were set aside after a compaction met corruption; Repair salvages their entries")
		}
		s.scheduleLocked() // a slot may have been kept for this call
		s.cond.Wait()
	}
}

// compactClaimed runs a compaction that claim returned. If ctx is done first, it changes nothing and
// returns the error of ctx.
func (s *Scheduler) compactClaimed(ctx context.Context, c *pick.Compaction) error {
	defer s.end()
	err := s.compact(ctx, c)
	s.done(c, err)
	if err == nil || err != base.ErrClosed && err != ctx.Err() {
		s.noteOutcome(err)
	}
	if err == nil || err == ctx.Err() {
		s.Schedule()
	}
	return err
}
