package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// leadership is what a leader knows in one term. mu guards it.
type leadership struct {
	chain   layout.Chain // of the newest entry
	clock   int64        // of the last entry
	overlay overlay
	watches watches
	// last is the newest entry on its way, nil once all are applied.
	last     *pending
	inFlight int
	bytes    int
}

// establishLoop begins and ends leaderships.
func (r *Replica) establishLoop() {
	defer r.group.Done()
	for r.ctx.Err() == nil {
		// Both channels before the looks: what changes after a look closes one of them.
		changed, abandoned := r.log.LeadershipChanged(), r.abandoned()
		if !r.log.Leads() {
			r.resign()
		} else if !r.established() {
			if err := r.establish(); err != nil && r.ctx.Err() == nil {
				r.o.Logger.Warn("a leadership could not begin", "group", r.o.Group, "err", err)
				r.pause(100 * time.Millisecond)
				continue
			}
		}
		select {
		case <-changed:
		case <-abandoned:
		case <-r.ctx.Done():
		}
	}
}

func (r *Replica) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// abandoned returns a channel that is closed when the leadership changes here.
func (r *Replica) abandoned() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *Replica) established() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead != nil && r.lead.chain.Term == r.log.Term()
}

// establish commits an entry without writes in the present term and waits until it is applied: then the
// state has all that earlier terms committed, and commands may be evaluated on it.
func (r *Replica) establish() error {
	r.resign()
	if err := r.state.Err(); err != nil {
		return fmt.Errorf("the state of the group cannot be used: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.o.EstablishTimeout)
	defer cancel()
	r.epoch++
	chain := layout.Chain{Term: r.log.Term(), Epoch: r.epoch}
	now := max(r.o.Clock(), r.state.Clock())
	f, err := r.log.Propose(layout.AppendEntryHeader(nil, layout.Entry{Chain: chain, Time: now}))
	if err != nil {
		return err
	}
	index, response, err := f.Wait(ctx)
	if err != nil {
		return err
	}
	if err, _ := response.(error); err != nil {
		return err
	}
	if err := r.state.WaitApplied(ctx, index); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return kv.ErrClosed
	}
	r.lead = &leadership{chain: chain, clock: max(now, r.state.Clock()), overlay: newOverlay(), watches: watches{}}
	r.changeLocked()
	return nil
}

func (r *Replica) changeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Replica) resign() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resignLocked()
}

// resignLocked gives the leadership up here: commands are not evaluated until it is established again.
func (r *Replica) resignLocked() {
	if r.lead == nil {
		return
	}
	r.lead.watches.dirtyAll()
	r.lead, r.tick = nil, nil
	r.changeLocked()
}

// lockLeadership locks mu and returns the leadership. It waits for one that is about to begin. After an
// error mu is not locked.
func (r *Replica) lockLeadership(ctx context.Context) (*leadership, error) {
	for {
		if r.mu.LockContext(ctx) != nil {
			if r.ctx.Err() != nil {
				return nil, kv.ErrClosed
			}
			return nil, kv.ErrLate
		}
		if r.lead != nil && r.log.Leads() && r.lead.chain.Term == r.log.Term() {
			return r.lead, nil
		}
		changed, moved := r.changed, r.log.LeadershipChanged() // before the looks
		r.mu.Unlock()
		if !r.log.Leads() || r.state.Err() != nil || r.ctx.Err() != nil {
			return nil, r.notLeader()
		}
		select {
		case <-changed:
		case <-moved:
		case <-r.ctx.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: a leadership did not begin in time", kv.ErrNoQuorum)
		}
	}
}

// definite turns the error of a proposal into one for clients: it is unknown, or nothing was done.
func (r *Replica) definite(err error) error {
	var not *kv.NotLeaderError
	switch {
	case err == nil, errors.Is(err, kv.ErrUnknown), errors.Is(err, kv.ErrBusy), errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrNoQuorum):
		return err
	case errors.As(err, &not):
		return r.notLeader()
	}
	return err
}
