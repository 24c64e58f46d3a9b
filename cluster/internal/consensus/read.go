package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// reads verifies leadership for linearizable reads, in rounds that calls share.
type reads struct {
	g        *Group
	wake     chan struct{}
	lateness lateness

	mu   sync.Mutex
	next *round // which calls join; nil: none
}

// round is one verification. A call may join only before it begins: a round proves who led when it began.
type round struct {
	done  chan struct{} // closed after the fields below are set
	term  uint64        // in which this server leads
	index uint64
	err   error
}

func newReads(g *Group) *reads {
	r := &reads{g: g, wake: make(chan struct{}, 1), lateness: lateness{late: g.trans.acks.wake}}
	g.wg.Add(1)
	go r.run()
	return r
}

// ReadIndex returns an index so that a state machine that has applied it has all writes that were acknowledged before
// the call. The index is of an entry that the state machine sees. It fails with a *kv.NotLeaderError if this server
// does not lead, and with kv.ErrNoQuorum if ctx ends before that is known.
func (g *Group) ReadIndex(ctx context.Context) (uint64, error) {
	r, err := g.reads.wait(ctx)
	if err != nil {
		return 0, err
	}
	return r.index, nil
}

// Confirm returns nil if this server still led in a term after the call began: until then, no other server has led in
// a later term. So what the leader of that term knew before the call was not outdated by writes of a successor. It
// fails with kv.ErrDeposed if this server leads in another term by now, and otherwise as ReadIndex does.
func (g *Group) Confirm(ctx context.Context, term uint64) error {
	r, err := g.reads.wait(ctx)
	if err == nil && r.term != term {
		err = kv.ErrDeposed
	}
	return err
}

// wait returns a round that began after the call, and was confirmed.
func (r *reads) wait(ctx context.Context) (*round, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrNoQuorum, err)
	}
	now := r.join()
	select {
	case <-now.done:
		return now, now.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", kv.ErrNoQuorum, context.Cause(ctx))
	case <-r.g.dead:
		return nil, kv.ErrClosed
	}
}

func (r *reads) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return r.next
}

func (r *reads) run() {
	defer r.g.wg.Done()
	for {
		select {
		case <-r.wake:
		case <-r.g.dead:
			return
		}
		r.mu.Lock()
		now := r.next
		r.next = nil // who comes from here on is too late for this round
		r.mu.Unlock()
		if now != nil {
			now.term, now.index, now.err = r.verify()
			close(now.done)
		}
	}
}

// verify returns the read index, and the term, if this server leads now.
func (r *reads) verify() (term, index uint64, err error) {
	if term, err = r.ready(); err != nil {
		return 0, 0, err
	}
	since := r.g.trans.acks.tick()
	engine := r.g.raft.Load()
	// What was acknowledged is durable here. The rest need not be waited for.
	commit := r.g.logs.announced(engine.CommitIndex())
	servers := engine.GetConfiguration().Configuration().Servers
	if err := r.confirm(servers, term, since); err != nil {
		return 0, 0, err
	}
	if now := r.g.leading.current(); !now.Leading || now.Term != term {
		return 0, 0, r.g.notLeader()
	}
	index, err = r.visible(commit)
	return term, index, err
}

// ready waits until this leader has committed an entry of its term: before, it does not know what is committed.
func (r *reads) ready() (term uint64, err error) {
	for {
		now, changed := r.g.leading.watch()
		switch {
		case !now.Leading:
			return 0, r.g.notLeader()
		case now.Ready:
			return now.Term, nil
		}
		select {
		case <-changed:
		case <-r.g.dead:
			return 0, kv.ErrClosed
		}
	}
}

// confirm waits until a quorum has acknowledged the leader of term after since.
func (r *reads) confirm(servers []raft.Server, term, since uint64) error {
	acks := r.g.trans.acks
	number := acks.tick()
	r.lateness.begin()
	defer r.lateness.end()
	return r.g.acknowledged(context.Background(), acks, servers, term, since, func() {
		r.g.confirms.ask(servers, term, number, r.lateness.isLate())
	})
}

// acknowledged waits until a majority of the voters among servers has acknowledged this server as the leader of term,
// with answers in acks to what was sent after since. It calls ask before each wait.
func (g *Group) acknowledged(ctx context.Context, acks *acks, servers []raft.Server, term, since uint64, ask func()) error {
	for {
		ok, acked := acks.quorum(servers, raft.ServerID(g.o.ID), term, since)
		if ok {
			return nil
		}
		now, changed := g.leading.watch()
		if !now.Leading || now.Term != term {
			return g.notLeader()
		}
		ask()
		select {
		case <-acked:
		case <-changed:
		case <-ctx.Done():
			return ErrNoLiveQuorum
		case <-g.dead:
			return kv.ErrClosed
		}
	}
}

// visible returns the newest index up to commit that the state machine sees, since it does not learn of
// entries of raft's own. What it is known to have applied already needs no search.
func (r *reads) visible(commit uint64) (uint64, error) {
	for index := commit; index > r.g.command.Load(); index-- {
		var entry raft.Log
		err := r.g.o.Logs.GetLog(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			break // it is in a snapshot of this server, so it is applied
		}
		if err != nil {
			return 0, fmt.Errorf("read entry %d: %w", index, err)
		}
		if entry.Type == raft.LogCommand || entry.Type == raft.LogConfiguration {
			return index, nil
		}
	}
	return r.g.command.Load(), nil
}
