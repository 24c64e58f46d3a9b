package commit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/limit/throttle"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/write/txn"
	"github.com/sievedb/sievedb/memtable"
)

// Options are the environment of a Committer. All fields but Memory must be set.
type Options struct {
	Cmp *base.Comparer
	// Dir has the logs. Its file system and its logger are used for nothing else.
	Dir tables.Directory
	// Memory grants the memory of memtables. Nil: it is not shared.
	Memory *share.Memory
	Limits Limits
	// Current is what readers see. Once Open was called, only the Committer changes it.
	Current *lookup.Current
	// Recent gets the keys of commits while transactions are examined.
	Recent *txn.Recent
	// Latency gets the durations of writes, commits and syncs.
	Latency *latency.Set
	Events
}

// Compactions are what a Committer asks of the store's compactions, and what it tells them.
type Compactions struct {
	// Stop is called when a failure has ended the writes, with the error of every later write.
	Stop func(err error)
	// Full is called when a memtable is full, and another one has begun.
	Full func()
	// CanRelieve reports whether a compaction of level 0 could begin, so that iterators do not step over its tombstones
	// and those of the active memtable any more.
	CanRelieve func() bool
	// Paused reports whether compactions are paused. Stuck returns the error that prevents them from making room in
	// level 0 of v, nil if they will make some. Both are called with the Committer's lock held.
	Paused func() bool
	Stuck  func(v *version.Version) error
	// GarbageLoad says how far collections of values have fallen behind, from 0 to 1.
	GarbageLoad func(v *version.Version) float64
	// SetQuiet says whether nothing was written for a while. WouldFree returns what a flush of mem frees, nil if that
	// is not worth it; if not quiet, because of its tombstones. known is false while no compaction may begin. The
	// Committer's lock is not held.
	SetQuiet  func(quiet bool)
	WouldFree func(mem *memtable.Memtable, quiet bool) (gain *version.Gain, known bool)
}

// Events are functions that a Committer calls without its lock. They must not wait for a write.
type Events struct {
	// Failed is called with a failure that has ended the writes, unless an earlier one has.
	Failed func(cause error)
	// LogFailed is called when a log takes no more records, because the disk is full or for another reason.
	LogFailed func(err error)
	// Stalled is called after a writer has waited; see throttle.Options.
	Stalled func(reason string, stopped bool, took time.Duration)
}

// Limits are the options that can change at any time.
type Limits struct {
	MemtableSize int // usual, in bytes
	// MaxMemtables is how many memtables may wait for their flush.
	MaxMemtables       int
	L0Slowdown, L0Stop int // tables in level 0
}

// Start is the state after recovery.
type Start struct {
	// Log is new and empty, and has the number LogNum. The Committer closes it.
	Log    *wal.Writer
	LogNum uint64
	// LastSeq is the last sequence number in use. All up to it is durable.
	LastSeq uint64
	Store
}

// Store is what a Committer that writes uses of the rest of its store.
type Store struct {
	Set    *manifest.Set
	Tables *tables.Cache
	// Obsolete gets the tables of edits of which it is not certain whether they are in force.
	Obsolete *tables.Obsolete
	Compactions
	// Changes is nil if no history is kept.
	Changes *Changes
}

// Changes are functions that keep the history of a store. The leader calls them.
type Changes struct {
	// SwitchLog is called when the log with number next continues the present one, in which logged is the last
	// sequence number of a record, and last the last one that was used.
	SwitchLog func(logged, last, next uint64)
	// KeepFailed records, durably, the same numbers of a log whose last records failed, before the store can do without
	// that log.
	KeepFailed func(logged, last uint64) error
	// Wake is called when there is more to read: visible or durable.
	Wake func()
}

// Committer is the write path of one store. The zero value is not usable; see New.
type Committer struct {
	o        Options
	throttle *throttle.Throttle
	limits   atomic.Pointer[Limits]

	// closed and ended refuse writes. They are set with mu held, so that goroutines that wait on cond see them, and
	// read without. closed is for good; ended is the reason why writes have ended before, nil if they have not.
	closed atomic.Bool
	ended  atomic.Pointer[Ended]
	// logEnded is the reason why writes wait for a flush by Rotate, nil if they do not. The leader sets it.
	logEnded atomic.Pointer[Ended]
	ending   chan struct{} // closed when writing begins to end

	// ownLog is the file of the log. The leader sets it.
	ownLog atomic.Pointer[manifest.OwnFile]

	synced atomic.Uint64 // the last sequence number that is durable
	// spare is the size in bytes of the memtable that waits until the active one is full.
	spare atomic.Uint64
	// crowded and inPause are the numbers of callers that waive the limit of level 0 for new memtables: always, or only
	// while compactions are paused or have no space.
	crowded, inPause atomic.Int32
	counters         counters
	// waitsForQuiet says that a goroutine waits until nothing is written any more: quiet.go.
	waitsForQuiet atomic.Bool
	lookCost      time.Duration // of the last look of that goroutine at a memtable
	// hidden is how many hidden entries iterators have stepped over since a memtable was flushed for that: quiet.go.
	hidden atomic.Int64
	// background are the goroutines of the Committer. The leader begins them, so Shut can wait for them once there is
	// no leader.
	background sync.WaitGroup

	queue queue
	log   logState // the leader's
	store Store    // zero before Begin, and if nothing is written; constant

	// mu guards the fields below and the replacement of o.Current.State. cond is signalled when any of them, or what
	// the goroutines that wait look at, changes.
	mu          sync.Mutex
	cond        *sync.Cond
	flushErr    error  // of the last flush; nil after a success
	stallReason string // why the leader waits for room; "" if it does not
}

// counters are those of Status.
type counters struct{ batches, bytes, logBytes, logSyncs atomic.Uint64 }

// New returns a Committer that writes nothing before Open. Lead works at once if Current has a state, for a store that
// only reads.
func New(o Options) *Committer {
	c := &Committer{o: o, ending: make(chan struct{}), queue: queue{requests: newRequests()}}
	c.cond = sync.NewCond(&c.mu)
	c.limits.Store(&o.Limits)
	c.throttle = throttle.New(throttle.Options{
		Limits: o.Limits.throttle(), Pause: func(wait time.Duration) { c.Pause(wait) }, Stalled: o.Stalled,
	})
	return c
}

// Begin makes the Committer ready to write to a log. Open follows.
func (c *Committer) Begin(s Start) {
	c.log = logState{w: s.Log, num: s.LogNum, lastSeq: s.LastSeq, logged: s.LastSeq}
	c.store = s.Store
	c.noteLog()
	c.o.Current.VisibleSeq.Store(s.LastSeq)
	c.synced.Store(s.LastSeq)
}

// Open makes v and an empty memtable current. Then writes may begin.
func (c *Committer) Open(v *version.Version) {
	s := &lookup.State{Mem: c.newMemtable(c.log.num, 0), Version: v}
	c.o.Current.State.Store(s)
	c.updateThrottle(s)
}

// state returns the current read state, nil before the recovery.
func (c *Committer) state() *lookup.State { return c.o.Current.State.Load() }

// Install makes a new read state current: change gets a copy of the present one. It runs under the Committer's lock,
// and must call no method but Retire.
func (c *Committer) Install(change func(s *lookup.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.state()
	change(&next)
	c.o.Current.State.Store(&next)
	c.updateThrottle(&next)
	c.cond.Broadcast()
}

// Wake makes the leader look again whether, why and for how long it has to wait.
func (c *Committer) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.state(); s != nil {
		c.updateThrottle(s)
	}
	c.cond.Broadcast()
}

// SetLimits changes the limits, and wakes a leader that waits.
func (c *Committer) SetLimits(l Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.Store(&l)
	c.throttle.SetLimits(l.throttle())
	c.updateThrottle(c.state())
	c.cond.Broadcast()
}

// Synced returns the last sequence number that is durable. It may be above the visible one.
func (c *Committer) Synced() uint64 { return c.synced.Load() }

// Status is what a Committer has done, and its present state.
type Status struct {
	Batches, Bytes     uint64 // that were committed
	LogBytes, LogSyncs uint64
	Queued             int    // writers that wait for the leader
	SpareMemory        uint64 // bytes of the memtable that waits until the active one is full
	// Stall is why the leader waits at this moment, "" if it does not. Waits has the totals by reason.
	Stall string
	Waits map[string]throttle.Total
	// FlushErr is the error of the last flush, nil after a success.
	FlushErr error
}

// Status returns counts since New, and the present state.
func (c *Committer) Status() Status {
	s := Status{
		Batches: c.counters.batches.Load(), Bytes: c.counters.bytes.Load(),
		LogBytes: c.counters.logBytes.Load(), LogSyncs: c.counters.logSyncs.Load(),
		SpareMemory: c.spare.Load(), Stall: c.throttle.Now(), Waits: c.throttle.Waits(),
	}
	c.queue.mu.Lock()
	s.Queued = len(c.queue.waiting)
	c.queue.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.FlushErr = c.flushErr
	if c.stallReason != "" {
		s.Stall = c.stallReason
	}
	return s
}
