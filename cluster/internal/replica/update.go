package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// pending is an entry on its way, or a read that waits for one. done is closed when err is final.
type pending struct {
	r      *Replica
	lead   *leadership
	number uint64 // of its layout.Chain
	future Future
	keys   []string // of the overlay
	bytes  int
	done   chan struct{}
	err    error
}

// Wait implements kv.Pending.
func (p *pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", kv.ErrUnknown, ctx.Err())
	}
}

// Update implements kv.Group.
func (r *Replica) Update(ctx context.Context, f func(tx kv.Tx) error) (kv.Pending, error) {
	return r.update(ctx, r.o.MaxEvaluation, func(t *tx) error { return f(t) })
}

// update is Update. limit is how long f may take; 0: until ctx ends.
func (r *Replica) update(ctx context.Context, limit time.Duration, f func(t *tx) error) (kv.Pending, error) {
	lead, err := r.lockLeadership(ctx)
	if err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	if r.o.Full() { // not before: others may lead, on disks with space
		return nil, kv.ErrNoSpace
	}
	if lead.inFlight >= r.o.MaxInFlight || lead.bytes >= r.o.MaxInFlightBytes {
		return nil, kv.ErrBusy
	}
	t := &tx{lead: lead, now: max(lead.clock, r.o.Clock()), work: work{ctx: ctx, limit: limit}}
	err = r.sound(r.state.View(func(base kv.Reader) error {
		t.base = base
		return f(t)
	}))
	if err == nil {
		err = t.err // even if a command did not look at it
	}
	if err != nil {
		return nil, err
	}
	if !t.wrote && !t.expired {
		return r.confirmLocked(lead), nil
	}
	return r.proposeLocked(lead, t)
}

// proposeLocked proposes what t wrote. If that fails, the leadership continues as if t had not been.
func (r *Replica) proposeLocked(lead *leadership, t *tx) (*pending, error) {
	// Ticks and metadata are not counted by update, nor are entries of an earlier leadership that completeLoop has not
	// seen yet. Waiting for a place would be for ever: completeLoop needs mu.
	if len(r.queue) == cap(r.queue) {
		return nil, kv.ErrBusy
	}
	data, err := t.entry()
	if err != nil {
		return nil, err
	}
	future, err := r.log.Propose(data)
	if err != nil {
		return nil, r.definite(err)
	}
	p := &pending{r: r, lead: lead, future: future, bytes: len(data), done: make(chan struct{})}
	lead.chain.Number++
	p.number = lead.chain.Number
	for key := range t.writes {
		p.keys = append(p.keys, key)
	}
	lead.overlay.add(p.number, t.emptied, t.writes)
	lead.watches.dirty(t)
	lead.clock, lead.last = t.now, p
	lead.inFlight++
	lead.bytes += p.bytes
	r.queue <- p // has a place, because only this function fills it, with mu locked
	return p, nil
}

// maxCompleted is how many entries are completed at a time, so that commands do not wait long for the lock.
const maxCompleted = 256

// completeLoop waits for entries in their order. Those that have ended together are completed with one lock, for
// which commands wait in line.
func (r *Replica) completeLoop() {
	defer r.group.Done()
	var ended []*pending
	var next *pending // of the queue, but not ended yet
	for {
		p := next
		next = nil
		if p == nil {
			select {
			case p = <-r.queue:
			case <-r.ctx.Done():
				r.abandon()
				return
			}
		}
		p.err = r.end(p)
		ended = append(ended[:0], p)
		for more := true; more && next == nil && len(ended) < maxCompleted; {
			select {
			case p := <-r.queue:
				select {
				case <-p.future.Done():
					p.err = r.end(p)
					ended = append(ended, p)
				default:
					next = p
				}
			default:
				more = false
			}
		}
		r.complete(ended)
	}
}

// abandon ends what is in the queue: nothing is proposed any more.
func (r *Replica) abandon() {
	for {
		select {
		case p := <-r.queue:
			p.err = fmt.Errorf("%w: %w", kv.ErrUnknown, kv.ErrClosed)
			close(p.done)
		default:
			return
		}
	}
}

// end waits for an entry and returns how it ended.
func (r *Replica) end(p *pending) error {
	_, response, err := p.future.Wait(r.ctx)
	if err == nil {
		err, _ = response.(error)
	} else if r.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", kv.ErrUnknown, kv.ErrClosed)
	}
	return err
}

// complete notes the ends of entries, and reports them.
func (r *Replica) complete(ended []*pending) {
	r.mu.Lock()
	for _, p := range ended {
		p.lead.inFlight--
		p.lead.bytes -= p.bytes
		p.lead.overlay.applied(p)
		if p.err != nil && r.lead == p.lead {
			r.resignLocked()
		}
	}
	r.mu.Unlock()
	for _, p := range ended {
		p.err = r.outcome(p.err)
		close(p.done)
	}
}

// outcome is the error for the client whose entry ended with err.
func (r *Replica) outcome(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, layout.ErrSuperseded) {
		return r.notLeader() // all replicas skip the entry
	}
	if r.state.Err() != nil {
		return fmt.Errorf("%w: this replica cannot apply entries", kv.ErrUnknown)
	}
	return r.definite(err)
}

// confirmed is the Pending of an evaluation that wrote nothing.
type confirmed struct {
	r     *Replica
	term  uint64   // of the evaluation
	after *pending // what was read may be its write
}

// confirmLocked returns the Pending of an evaluation in a leadership that wrote nothing.
func (r *Replica) confirmLocked(lead *leadership) *confirmed {
	return &confirmed{r: r, term: lead.chain.Term, after: lead.last}
}

// Wait implements kv.Pending. A write that was read must be committed. And this node must still lead, in the same term,
// after the evaluation. Otherwise others may have committed writes that it had not seen: that it leads again, in
// a later term, says nothing about an evaluation in an earlier one.
func (c *confirmed) Wait(ctx context.Context) error {
	if c.after != nil {
		if err := c.after.Wait(ctx); err != nil {
			if ctx.Err() == nil && c.r.log.Leads() && c.r.ctx.Err() == nil {
				return kv.ErrDeposed // what was read is lost, or was committed too late to be sure
			}
			return notDone(err)
		}
	}
	return notDone(c.r.definite(c.r.log.Confirm(ctx, c.term)))
}

// notDone turns the error of a read into one that does not speak of an unknown outcome.
func notDone(err error) error {
	if errors.Is(err, kv.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: too few nodes confirmed in time that this node leads", kv.ErrNoQuorum)
	}
	return err
}
