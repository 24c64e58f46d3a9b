package compact

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/filterplan"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/tables"
	"github.com/sievedb/sievedb/sstable"
)

// Host is the store whose tables a Scheduler compacts. Its methods may be called from
// any goroutine. All but Apply are called with the Scheduler's lock held: they must not
// wait for anyone who calls the Scheduler.
type Host interface {
	// RefVersion returns the current version; the caller unrefs it.
	RefVersion() *manifest.Version
	// OldestSnapshot returns the sequence number up to which all readers, and all later
	// ones, see everything.
	OldestSnapshot() uint64
	// Snapshots returns the sequence numbers that readers ask for, ascending, the newest
	// visible one included.
	Snapshots() []uint64
	// Apply records an edit in the MANIFEST and makes its version the current one. After
	// an error, written, the tables that were written for it, are the host's to remove.
	Apply(edit *manifest.Edit, written []*manifest.FileMeta) error
}

// Options configure a Scheduler.
type Options struct {
	Dir      tables.Directory
	Cmp      *base.Comparer
	Cache    *tables.Cache
	Obsolete *tables.Obsolete
	Plan     *filterplan.Planner
	// NewFileNum hands out the numbers of files.
	NewFileNum func() uint64
	// NewWriter returns a writer of tables whose filters have these bits a key, if that
	// depends on the level.
	NewWriter func(filterplan.Bits) *tables.Writer
	// Table is for new tables, ReadPolicies are the filter policies that the store reads.
	Table        sstable.WriterOptions
	ReadPolicies []filter.Policy

	MaxConcurrent     int // slots; see subcompaction.go
	L0Trigger         int
	L0SlowdownTrigger int
	MaxLevelBase      uint64 // bytes
	TableSize         uint64 // bytes
	ReadOnly          bool   // nothing is compacted

	// Begin and End are called before and after each compaction.
	Begin, End func(Info)
	// Guard calls f, and turns a panic in it into an error that ends all edits, which it
	// returns; Fail ends them for such an error. They are called without mu.
	Guard func(during string, f func() error) error
	Fail  func(err error)
	// Ended is called with the outcome of compactions, nil for success, once Status shows it.
	Ended  func(error)
	Logger *slog.Logger
}

// Info describes a compaction. BytesWritten, OutputTables, Subcompactions, Duration and
// Err are set at its end.
type Info struct {
	Reason                    string
	InputLevel, OutputLevel   int
	InputTables, OutputTables int
	BytesRead, BytesWritten   uint64
	TrivialMove               bool
	Subcompactions            int // 0 for a TrivialMove
	Duration                  time.Duration
	Err                       error
}

// Counters are what a Scheduler has counted.
type Counters struct {
	Compactions, Subcompactions, TrivialMoves uint64
	BytesRead, BytesWritten                   uint64
}

// Scheduler decides when tables are compacted, and compacts them.
type Scheduler struct {
	o    Options
	host Host

	compactions, subcompactions, trivialMoves, bytesRead, bytesWritten atomic.Uint64

	closed     atomic.Bool
	closing    chan struct{}  // closed when Close begins
	background sync.WaitGroup // whatever may still touch the store

	// mu guards what follows. cond is signalled whenever any of it changes, and
	// when wake is called.
	mu           sync.Mutex
	cond         *sync.Cond
	running      []*manifest.Compaction // manual ones included
	slots        int                    // of MaxConcurrent that are taken
	claimers     int                    // who wait in claim for one
	jobs         []*mergeJob            // with pieces that nobody has begun
	holds        int                    // see Hold
	stopErr      error                  // see Stop
	flushing     bool                   // see BeginFlush
	err          error                  // of the last compaction; nil after a success
	parkedErr    error                  // of the last compaction that met corruption, whose inputs were set aside
	parkedTables int                    // their inputs
	backoff      Backoff
	resting      int // failed compactions whose back-off is not over; meanwhile the background starts none
	burst        burst
}

// New returns a Scheduler, which does nothing until Schedule is called.
func New(o Options, host Host) *Scheduler {
	s := &Scheduler{o: o, host: host, closing: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// Close keeps everything from beginning. What runs ends soon with base.ErrClosed; Wait
// waits for it.
func (s *Scheduler) Close() {
	if s.closed.Swap(true) {
		return
	}
	close(s.closing)
	s.wake()
}

// Stop keeps everything from beginning, since err has ended all edits: claims return it.
func (s *Scheduler) Stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopErr = err
	s.cond.Broadcast()
}

// Wait waits for what was running when Close was called.
func (s *Scheduler) Wait() { s.background.Wait() }

// wake has everyone who waits look again.
func (s *Scheduler) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cond.Broadcast()
}

// Status is what a Scheduler is doing.
type Status struct {
	Running, Slots int
	Flushing       bool
	Gathering      bool // compactions that are due wait for the end of a burst of writes
	Waiting        int  // compactions with pieces that nobody has begun
	// Err is the last compaction's error, ParkedErr that of the last one that met
	// corruption; its inputs, ParkedTables in all, are not compacted any more.
	Err, ParkedErr error
	ParkedTables   int
}

// Status returns what the Scheduler is doing at this moment.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Running: len(s.running), Slots: s.slots, Flushing: s.flushing, Gathering: s.burst.watching, Waiting: len(s.jobs),
		Err: s.err, ParkedErr: s.parkedErr, ParkedTables: s.parkedTables,
	}
}

// Counters returns what was counted.
func (s *Scheduler) Counters() Counters {
	return Counters{
		Compactions: s.compactions.Load(), Subcompactions: s.subcompactions.Load(), TrivialMoves: s.trivialMoves.Load(),
		BytesRead: s.bytesRead.Load(), BytesWritten: s.bytesWritten.Load(),
	}
}

// Stuck returns what keeps compactions from making room in level 0: the last one's failure,
// or the corruption that tables were set aside for, if nothing is left to compact
// beside them. v is the current version.
func (s *Scheduler) Stuck(v *manifest.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.parkedErr != nil && len(s.running) == 0 && s.pickOf(v, s.pickOptions()) == nil {
		return s.parkedErr
	}
	return s.err
}

// WaitIdle returns when no compaction and no flush is under way.
func (s *Scheduler) WaitIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.running) > 0 || s.flushing {
		s.cond.Wait()
	}
}

// Idle reports whether no compaction and no flush is under way.
func (s *Scheduler) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) == 0 && !s.flushing
}

// Due reports whether a compaction is due or runs.
func (s *Scheduler) Due() bool {
	v := s.host.RefVersion()
	defer v.Unref()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0 || s.pickOf(v, s.pickOptions()) != nil
}

// BeginFlush notes that a table of level 0 is about to get its number, and EndFlush that it
// is in the current version, or given up. Meanwhile nothing in level 0 changes its number.
func (s *Scheduler) BeginFlush() { s.setFlushing(true) }

// EndFlush is the end of what BeginFlush began.
func (s *Scheduler) EndFlush() { s.setFlushing(false) }

func (s *Scheduler) setFlushing(flushing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushing = flushing
	s.cond.Broadcast()
}

// Hold keeps compactions and upgrades of filters from beginning until release is called,
// which schedules nothing by itself. Those that run go on.
func (s *Scheduler) Hold() (release func()) {
	s.hold(+1)
	return sync.OnceFunc(func() { s.hold(-1) })
}

// HoldBackground is Hold for what begins by itself: Compact and UpgradeFilters go on.
func (s *Scheduler) HoldBackground() (release func()) {
	s.rest(+1)
	return sync.OnceFunc(func() { s.rest(-1) })
}

func (s *Scheduler) rest(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting += n
}

func (s *Scheduler) hold(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds += n
	s.cond.Broadcast()
}

// PickOptions returns what a choice of a compaction goes by.
func (s *Scheduler) PickOptions() manifest.PickOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pickOptions()
}

// pickOptions is PickOptions with mu held.
func (s *Scheduler) pickOptions() manifest.PickOptions {
	return manifest.PickOptions{
		L0Trigger:    s.o.L0Trigger,
		MaxLevelBase: s.o.MaxLevelBase,
		TableSize:    s.o.TableSize,
		OldestReader: s.host.OldestSnapshot(),
		Running:      s.running,
	}
}

// Place chooses the levels of a load's tables. It is called under a Hold that lasts until they
// are in the current version: a compaction that knows nothing of them might write across them.
func (s *Scheduler) Place(files []*manifest.FileMeta) []manifest.LevelFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.host.RefVersion()
	defer v.Unref()
	return v.Place(files, s.pickOptions())
}

// Schedule starts what is due and allowed.
func (s *Scheduler) Schedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleLocked()
}

// scheduleLocked gives slots that are free to compactions that are due, and what is
// left of them to pieces of those that run.
func (s *Scheduler) scheduleLocked() {
	if s.o.ReadOnly || s.resting > 0 || s.holds > 0 {
		return
	}
	for s.slots+s.claimers < s.o.MaxConcurrent && !s.closed.Load() && s.stopErr == nil {
		if c := s.pickLocked(); c != nil {
			s.startLocked(c)
			s.background.Add(1)
			go s.compactInBackground(c)
		} else if !s.helpLocked() {
			return
		}
	}
}

// startLocked claims the inputs of c and a slot. The caller has a reference to c.Version, which
// Done gives up. The Scheduler is open, and Wait waits until Done is called.
func (s *Scheduler) startLocked(c *manifest.Compaction) {
	s.background.Add(1)
	for _, f := range c.AllInputs() {
		f.Compacting = true
	}
	s.slots++
	s.running = append(s.running, c)
}

// Done gives back what startLocked took, and removes the files that nobody needs any
// more. The inputs of a compaction that met corruption stay claimed: trying again would
// fail again (basho/eleveldb issue 23), and reads of other keys go on.
func (s *Scheduler) Done(c *manifest.Compaction, err error) {
	defer s.background.Done()
	parked := errors.Is(err, base.ErrCorruption)
	s.mu.Lock()
	for _, f := range c.AllInputs() {
		f.Compacting = parked
	}
	if parked {
		s.parkedErr = err
		s.parkedTables += len(c.AllInputs())
	}
	s.slots--
	s.running = slices.DeleteFunc(s.running, func(r *manifest.Compaction) bool { return r == c })
	s.cond.Broadcast()
	s.mu.Unlock()
	c.Version.Unref()
	s.o.Obsolete.Remove()
}

func (s *Scheduler) compactInBackground(c *manifest.Compaction) {
	defer s.background.Done()
	_ = s.o.Guard("a compaction", func() error { s.compactPicked(c); return nil })
}

// compactPicked is the work of compactInBackground.
func (s *Scheduler) compactPicked(c *manifest.Compaction) {
	err := s.compact(c)
	wait := s.beginRest(err) // before a flush can pick the same inputs again
	s.Done(c, err)
	if err == base.ErrClosed {
		return
	}
	s.NoteOutcome(err)
	if wait > 0 {
		if !s.pause(wait) {
			return
		}
		s.rest(-1)
	}
	s.Schedule()
}

// NoteOutcome keeps the outcome of a compaction.
func (s *Scheduler) NoteOutcome(err error) {
	err = base.NoSpace(err)
	s.mu.Lock()
	s.err = err
	s.cond.Broadcast()
	s.mu.Unlock()
	s.o.Ended(err)
}

// beginRest takes the outcome of a background compaction. After a failure it
// returns how long the background should start none; the caller ends that. Inputs
// that are corrupt stay claimed, so that there the next choice is another one and
// nothing need wait.
func (s *Scheduler) beginRest(err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && s.resting == 0:
		s.backoff = Backoff{}
		return 0
	case err == nil || err == base.ErrClosed || errors.Is(err, base.ErrCorruption):
		return 0
	}
	if s.resting++; s.resting > 1 { // of those that fail together, one counts
		return s.backoff.wait
	}
	return s.backoff.Next(err)
}

// SetBackoff makes the next rest after a failure twice as long as wait, or the longest.
func (s *Scheduler) SetBackoff(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.wait = wait
}

// pause waits and reports whether the Scheduler is still open then.
func (s *Scheduler) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}

// Claim waits for a slot, and until pick returns a compaction whose inputs are free, or
// none at all, and claims it. pick is called with mu held.
func (s *Scheduler) Claim(ctx context.Context, pick func(*manifest.Version, manifest.PickOptions) (c *manifest.Compaction, busy bool)) (*manifest.Compaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.scheduleLocked() // a slot may have been kept for this call
	for {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case s.closed.Load():
			return nil, base.ErrClosed
		case s.stopErr != nil:
			return nil, s.stopErr
		}
		if s.holds > 0 {
			s.cond.Wait()
			continue
		}
		if s.slots >= s.o.MaxConcurrent {
			s.claimers++ // the next one that is free is not for the background
			s.cond.Wait()
			s.claimers--
			continue
		}
		v := s.host.RefVersion()
		c, busy := pick(v, s.pickOptions())
		if c != nil {
			s.startLocked(c)
			return c, nil
		}
		v.Unref()
		if !busy {
			return nil, nil
		}
		if len(s.running) == 0 && !s.flushing {
			return nil, errors.Wrap(s.parkedErr,
				"sievedb: tables in the range were set aside after a compaction met corruption; Repair salvages what they hold")
		}
		s.scheduleLocked() // likewise
		s.cond.Wait()
	}
}

// CompactClaimed runs a compaction that claim returned.
func (s *Scheduler) CompactClaimed(c *manifest.Compaction) error {
	err := s.compact(c)
	s.Done(c, err)
	if err == nil {
		s.Schedule()
	} else if err != base.ErrClosed {
		s.NoteOutcome(err)
	}
	return err
}

// Backoff spaces out repetitions of what failed. The zero Backoff begins with 50 ms.
type Backoff struct{ wait time.Duration }

// Next returns how long to wait after err: twice as long as the last time, up to 30
// seconds. A full disk is looked at every second: it costs little, and writers wait for it.
func (b *Backoff) Next(err error) time.Duration {
	longest := 30 * time.Second
	if base.IsNoSpace(err) {
		longest = time.Second
	}
	b.wait = min(max(2*b.wait, 50*time.Millisecond), longest)
	return b.wait
}
