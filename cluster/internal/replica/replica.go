package replica

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// State is what a replica needs of a group's state.
type State interface {
	// View calls f with the applied state, as it is or newer. r is an OutcomeReader too.
	View(f func(r kv.Reader) error) error
	// WaitApplied waits until the entry with an index is applied.
	WaitApplied(ctx context.Context, index uint64) error
	// Clock is the time of the log, in milliseconds since 1970.
	Clock() int64
	// HintsBefore calls f with what may have expired by now, and the time at which it does: keys, or IDs of requests whose
	// outcomes are stored. See layout.AppendHint.
	HintsBefore(prefix byte, now int64, limit int, f func(slot uint16, id []byte, at int64) bool) error
	// Meta returns what the group itself stores under a name; nil if it stores nothing.
	Meta(name string) ([]byte, error)
	// Err is the error that keeps the state from applying entries.
	Err() error
}

// OutcomeReader reads what is no key.
type OutcomeReader interface {
	// Outcome returns the stored outcome of a request, as layout.AppendOutcome encodes it; nil if there is none.
	Outcome(slot uint16, id []byte) ([]byte, error)
}

// Future is a proposal on its way.
type Future interface {
	// Wait returns the index of the entry, and what the state answered to it. An error that wraps
	// kv.ErrUnknown says that the entry may still be committed; any other, that it never will be.
	Wait(ctx context.Context) (index uint64, response any, err error)
	// Done is closed when Wait would not block.
	Done() <-chan struct{}
}

// Log is what a replica needs of the group's replicated log.
type Log interface {
	// Propose appends an entry. The order of calls is that of the log. After an error nothing was proposed.
	Propose(data []byte) (Future, error)
	// ReadIndex returns the index up to which the state must be applied for a linearizable read that began
	// before the call.
	ReadIndex(ctx context.Context) (uint64, error)
	// Confirm returns nil if this node still led in a term when the call began. It fails with kv.ErrDeposed if it leads
	// in another one by now.
	Confirm(ctx context.Context, term uint64) error
	// Term is the present term.
	Term() uint64
	// Leads reports whether this node believes that it leads.
	Leads() bool
	// Leader is the identity of the leader, or "".
	Leader() string
	// AskReadIndex asks the leader, which may be another node, for its ReadIndex.
	AskReadIndex(ctx context.Context) (uint64, error)
	// LeadershipChanged returns a channel that is closed at the next change of the leadership.
	LeadershipChanged() <-chan struct{}
}

// Options configure a replica.
type Options struct {
	Group kv.GroupID
	State State
	Log   Log

	// Addr returns the address for clients of the node with a raft identity, or "".
	Addr func(id string) string
	// Clock returns the time in milliseconds since 1970. Default: the system's.
	Clock func() int64
	// StaleBound is how old the answer of a stale read may be. Default: 10 s.
	StaleBound time.Duration
	// AskTimeout bounds a question to the leader about stale reads. Default: 1 s.
	AskTimeout time.Duration
	// Elapsed is the time since some moment, in which the suspension of the machine counts. Default: the system's.
	Elapsed func() time.Duration
	// MaxInFlight and MaxInFlightBytes bound the writes on their way. Default: 8192, 64 MiB.
	MaxInFlight, MaxInFlightBytes int
	// MaxEvaluation is how long the evaluation of one command may keep others of the group waiting. Default: 1 s.
	MaxEvaluation time.Duration
	// EstablishTimeout bounds the first entry of a leadership. Default: 10 s.
	EstablishTimeout time.Duration
	// SweepEvery is the time between searches for expired keys. Default: 250 ms.
	SweepEvery time.Duration
	// Full reports whether the disk is full, so that no write should begin. Default: never.
	Full func() bool
	// Logger is required.
	Logger *slog.Logger
}

func (o *Options) fillDefaults() {
	if o.Clock == nil {
		o.Clock = func() int64 { return time.Now().UnixMilli() }
	}
	o.StaleBound = cmp.Or(o.StaleBound, 10*time.Second)
	o.AskTimeout = cmp.Or(o.AskTimeout, time.Second)
	if o.Elapsed == nil {
		o.Elapsed = elapsed
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 8192)
	o.MaxInFlightBytes = cmp.Or(o.MaxInFlightBytes, 64<<20)
	o.MaxEvaluation = cmp.Or(o.MaxEvaluation, time.Second)
	o.EstablishTimeout = cmp.Or(o.EstablishTimeout, 10*time.Second)
	o.SweepEvery = cmp.Or(o.SweepEvery, 250*time.Millisecond)
	if o.Full == nil {
		o.Full = func() bool { return false }
	}
}

// Replica is one replica of a group. Its methods may be called by any goroutine.
type Replica struct {
	o     Options
	state State
	log   Log

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group sync.WaitGroup
	queue chan *pending // in the order of the log
	epoch uint32        // of the last attempt to begin a leadership; establishLoop uses it

	fresh freshness

	mu *mutex
	// lead is the present leadership once it is established; nil if there is none.
	lead *leadership
	// changed is closed, and replaced, when lead changes.
	changed chan struct{}
	// tick is the last entry without writes, which readers share, and tickTime its time.
	tick     *pending
	tickTime int64
}

// Start begins to serve a group. Close ends it; the log and the state stay open.
func Start(o Options) *Replica {
	o.fillDefaults()
	r := &Replica{o: o, state: o.State, log: o.Log, mu: newMutex(), changed: make(chan struct{})}
	r.queue = make(chan *pending, o.MaxInFlight+2)
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.group.Add(3)
	go r.establishLoop()
	go r.completeLoop()
	go r.sweepLoop()
	return r
}

// ID is the group's number.
func (r *Replica) ID() kv.GroupID { return r.o.Group }

// Leading reports whether this node leads the group, and may evaluate commands.
func (r *Replica) Leading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead != nil && r.log.Leads()
}

// Close ends the replica's work. Writes on their way are reported as kv.ErrUnknown. Close the log
// first, so that none of them waits.
func (r *Replica) Close() {
	r.stop()
	r.fresh.close()
	r.mu.Lock()
	r.resignLocked()
	r.mu.Unlock()
	r.group.Wait()
}

// notLeader is the error of a node that does not lead.
func (r *Replica) notLeader() error {
	if r.ctx.Err() != nil {
		return kv.ErrClosed
	}
	e := &kv.NotLeaderError{Group: r.o.Group}
	if id := r.log.Leader(); id != "" && !r.log.Leads() {
		e.Leader = r.o.Addr(id)
	}
	return e
}
