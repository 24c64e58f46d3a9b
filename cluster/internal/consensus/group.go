package consensus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Group is this node's member of a raft group. Its methods may be called by any goroutine.
type Group struct {
	o        Options
	config   *raft.Config
	trans    *transport
	logs     *logStore
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	raft     atomic.Pointer[raft.Raft] // replaced by restart
	gate     *gate
	leading  *leadership
	reads    *reads
	confirms *confirms
	inquiry  *inquiry
	props    *proposals
	failed   atomic.Pointer[raft.Future] // the shutdown of fail
	dead     chan struct{}               // closed when raft has ended
	once     sync.Once
	wg       sync.WaitGroup

	// command is the index of the newest command that the state machine is known to have applied.
	command atomic.Uint64
}

// Start starts the member with the state in its stores.
func Start(o Options) (*Group, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{
		o: o, config: o.raftConfig(), gate: newGate(), leading: newLeadership(o.OnLeadership), dead: make(chan struct{}),
	}
	if err := raft.ValidateConfig(g.config); err != nil {
		return nil, fmt.Errorf("group %d: %w", o.Group, err)
	}
	if err := bootstrap(&o); err != nil {
		return nil, fmt.Errorf("group %d: %w", o.Group, err)
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.logs = newLogStore(o.Logs, func() bool { r := g.raft.Load(); return r != nil && r.State() == raft.Leader })
	g.trans = newTransport(&o, g.logs)
	g.trans.ctx = g.ctx
	g.trans.servers = g.members
	g.trans.settled, g.trans.installed = g.settled, g.installed
	if err := g.newRaft(); err != nil {
		g.cancel()
		g.trans.close()
		return nil, fmt.Errorf("group %d: %w", o.Group, err)
	}
	g.confirms, g.inquiry = newConfirms(g), &inquiry{g: g, mu: kv.NewMutex()}
	g.reads = newReads(g)
	g.props = newProposals(g)
	g.leading.start(g)
	g.trans.start()
	g.wg.Add(1)
	go g.shortenLoop()
	return g, nil
}

// newRaft starts raft on the stores.
func (g *Group) newRaft() (err error) {
	defer recovered(&err)
	if err := reconcile(g.o.Logs, g.o.Snapshots); err != nil {
		return err
	}
	fsm := &durableMachine{BatchingFSM: g.o.FSM, logs: g.logs, ctx: g.ctx}
	r, err := raft.NewRaft(g.config, fsm, g.logs, &voteStore{StableStore: g.o.Stable}, g.o.Snapshots, g.trans)
	if err != nil {
		return err
	}
	g.leading.observe(r)
	g.raft.Store(r)
	return nil
}

// recovered turns a panic of raft at its start, about a store that fails, into an error.
func recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case runtime.Error:
		panic(r) // a bug
	case error:
		*err = fmt.Errorf("raft could not start: %w", r)
	default:
		panic(r)
	}
}

// bootstrap writes the first configuration. Unlike raft.BootstrapCluster it completes one that a crash has cut.
func bootstrap(o *Options) error {
	if len(o.Bootstrap) == 0 {
		return nil
	}
	last, err := o.Logs.LastIndex()
	if err != nil {
		return fmt.Errorf("find the last entry: %w", err)
	}
	snapshots, err := o.Snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	term, err := stableUint64(o.Stable, "CurrentTerm")
	if err != nil {
		return err
	}
	voted, err := stableUint64(o.Stable, "LastVoteTerm")
	if err != nil {
		return err
	}
	if last > 0 || len(snapshots) > 0 || term > 1 || voted > 0 {
		return nil
	}
	var servers raft.Configuration
	for _, s := range o.Bootstrap {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		servers.Servers = append(servers.Servers, raft.Server{
			ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address), Suffrage: suffrage,
		})
	}
	if err := o.Stable.SetUint64([]byte("CurrentTerm"), 1); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	entry := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(servers)}
	if err := o.Logs.StoreLog(entry); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// stableUint64 reads a number that raft keeps. Raft knows an absent key by this text.
func stableUint64(s raft.StableStore, key string) (uint64, error) {
	n, err := s.GetUint64([]byte(key))
	if err != nil && err.Error() != "not found" {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return n, nil
}

// ErrStateBehind is an error of Start: the log begins after the state ends. Entries are missing, and the replica must
// be healed from another one.
var ErrStateBehind = errors.New("the log begins after the state ends")

// reconcile drops a log that does not continue the newest snapshot. That is left if the node stopped after it had
// switched to a received snapshot and before it had dropped its old log. If the log has another entry at the
// snapshot's end, all that it has from there on was never committed.
func reconcile(logs raft.LogStore, snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	first, err := logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("find the first entry: %w", err)
	}
	last, err := logs.LastIndex()
	if err != nil {
		return fmt.Errorf("find the last entry: %w", err)
	}
	var index, term uint64
	if len(list) > 0 {
		index, term = list[0].Index, list[0].Term
	}
	switch {
	case last == 0:
		return nil
	case first > index+1:
		// Raft would panic.
		return fmt.Errorf("the first entry is %d, and the state ends with %d: %w", first, index, ErrStateBehind)
	case first == index+1:
		return nil
	}
	if last >= index {
		var entry raft.Log
		if err := logs.GetLog(index, &entry); err != nil {
			return fmt.Errorf("read entry %d: %w", index, err)
		}
		if entry.Term == term {
			return nil
		}
	}
	if err := logs.DeleteRange(first, last); err != nil {
		return fmt.Errorf("drop the log that the snapshot replaces: %w", err)
	}
	return nil
}

// settled returns the newest index that is committed or applied here.
func (g *Group) settled() uint64 {
	r := g.raft.Load()
	return max(r.CommitIndex(), r.AppliedIndex())
}

// installed restarts raft if the last entry that it remembers is not the last one in the store. Raft drops the log
// after a snapshot, but still remembers the last entry, and compares everything that the leader sends with it (#697).
func (g *Group) installed(index uint64) {
	remembered, err := strconv.ParseUint(g.raft.Load().Stats()["last_log_index"], 10, 64)
	if err != nil {
		panic("raft's statistics have no last_log_index") // found by each test of snapshots
	}
	if remembered < index {
		return // the snapshot is newer, and raft prefers it
	}
	stored, err := g.o.Logs.LastIndex()
	if err == nil && stored == remembered {
		return
	}
	g.o.Logger.Info("restart raft after a snapshot that replaced a conflicting log", "snapshot", index, "entry", remembered)
	if err := g.restart(); err != nil {
		g.fail(fmt.Errorf("group %d: restart raft after a snapshot: %w", g.o.Group, err))
	}
}

// restart replaces raft by a new one on the same stores. It is called by the transport's goroutine, while no
// message passes.
func (g *Group) restart() error {
	defer g.gate.resume()
	if !g.gate.pause(g.patience()) {
		return errors.New("operations of raft do not end")
	}
	select {
	case <-g.trans.done:
		return nil // Close does the rest
	default:
	}
	g.confirms.voter.Store(nil)
	old := g.raft.Load()
	if err := old.Shutdown().Error(); err != nil {
		return err
	}
	if err := g.newRaft(); err != nil {
		return err
	}
	g.confirms.voter.Store(g.raft.Load())
	return nil
}

// patience is how long operations take to end: a leader without a quorum steps down after a lease.
func (g *Group) patience() time.Duration { return 2*g.o.Timing.Election + time.Second }

// fail reports that the group cannot continue. Operations end with kv.ErrClosed.
func (g *Group) fail(err error) {
	g.o.Logger.Error("a group of this node has failed", "error", err)
	shutdown := g.raft.Load().Shutdown()
	g.failed.Store(&shutdown)
	go g.o.OnFailure(err) // it may call Close
}

// Close ends the member. What is in flight ends with kv.ErrUnknown.
func (g *Group) Close() error {
	var err error
	g.once.Do(func() {
		// First let raft answer what it holds: it never does so after its end.
		g.gate.close(g.patience())
		shutdown := g.raft.Load().Shutdown()
		g.cancel()
		g.trans.close() // or goroutines of raft wait for other nodes
		// A restart may have been in progress until now.
		if last := g.raft.Load().Shutdown().Error(); last != nil {
			err = last
		}
		if first := shutdown.Error(); first != nil {
			err = first
		}
		if failed := g.failed.Load(); failed != nil {
			err = errors.Join(err, (*failed).Error())
		}
		close(g.dead)
		g.leading.close()
		g.wg.Wait()
	})
	return err
}

// await runs an operation of raft and waits for its end, or that of ctx. begin may block.
func (g *Group) await(ctx context.Context, begin func(r *raft.Raft) raft.Future) (raft.Future, error) {
	type result struct {
		f   raft.Future
		err error
	}
	if !g.gate.enter() {
		return nil, kv.ErrClosed
	}
	done := make(chan result, 1)
	go func() {
		defer g.gate.exit()
		f := begin(g.raft.Load())
		done <- result{f, f.Error()}
	}()
	select {
	case r := <-done:
		return r.f, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-g.dead:
		return nil, fmt.Errorf("%w: the group was closed", kv.ErrUnknown)
	}
}

// notLeader returns the error for operations that only the leader can do.
func (g *Group) notLeader() error {
	e := &kv.NotLeaderError{Group: g.o.Group}
	if id, addr := g.Leader(); id != g.o.ID {
		e.Leader = addr
	}
	return e
}

// Leader returns the server that leads as far as this one knows, or "". It may have been deposed.
func (g *Group) Leader() (id, addr string) {
	a, i := g.raft.Load().LeaderWithID()
	return string(i), string(a)
}

// IsLeader reports whether this server believes that it leads. It may have been deposed.
func (g *Group) IsLeader() bool { return g.raft.Load().State() == raft.Leader }

// Term returns the newest term that this server knows.
func (g *Group) Term() uint64 { return g.raft.Load().CurrentTerm() }

// Leadership returns whether and in what term this server leads.
func (g *Group) Leadership() Leadership { return g.leading.current() }

// LastContact returns when this server last heard from a leader; now, if it leads. Votes count as contact too, so it is
// for operators. AskReadIndex is for stale reads.
func (g *Group) LastContact() time.Time {
	if g.IsLeader() {
		return time.Now()
	}
	return g.raft.Load().LastContact()
}

// Stats is the state of a member, for operators.
type Stats struct {
	State       string // Follower, Candidate, Leader or Shutdown
	Term        uint64
	LastIndex   uint64
	CommitIndex uint64
	// AppliedIndex is what raft has handed to the state machine.
	AppliedIndex uint64
	LastContact  time.Time
	Leader       string // its ID
	InFlight     int
}

// Stats returns the present state.
func (g *Group) Stats() Stats {
	r := g.raft.Load()
	_, leader := r.LeaderWithID()
	return Stats{
		State: r.State().String(), Term: r.CurrentTerm(), LastIndex: r.LastIndex(), CommitIndex: r.CommitIndex(),
		AppliedIndex: r.AppliedIndex(), LastContact: g.LastContact(), Leader: string(leader), InFlight: g.props.count(),
	}
}

// LastTerm returns the term of the last entry, 0 without any: of two logs, that with the higher one is newer, whatever
// their lengths are.
func (g *Group) LastTerm() uint64 {
	stats := g.raft.Load().Stats() // which is the only way to the term
	term, index := stats["last_log_term"], stats["last_log_index"]
	if index == "0" { // the snapshot has all
		term = stats["last_snapshot_term"]
	}
	n, _ := strconv.ParseUint(term, 10, 64) // raft has written it
	return n
}

// Snapshot takes a snapshot now and shortens the log. It is no error if nothing is new.
func (g *Group) Snapshot(ctx context.Context) error {
	_, err := g.await(ctx, func(r *raft.Raft) raft.Future { return r.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}
