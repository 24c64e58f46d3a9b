package replica

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// View implements kv.Group.
func (r *Replica) View(ctx context.Context, stale bool, f func(r kv.Reader) error) error {
	if err := r.state.Err(); err != nil {
		return r.notLeader()
	}
	// A node that believes it leads may have been paused for long, and may have lost the leadership since. Only the
	// other nodes know how old its state is.
	if stale && !r.log.Leads() {
		return r.viewStale(ctx, f)
	}
	if !r.log.Leads() {
		return r.notLeader()
	}
	var began time.Duration
	if stale {
		began = r.o.Elapsed()
	}
	index, err := r.log.ReadIndex(ctx)
	if err != nil {
		return notDone(r.definite(err))
	}
	if err := r.state.WaitApplied(ctx, index); err != nil {
		return r.sound(notDone(r.definite(err)))
	}
	if stale {
		r.fresh.note(began) // such reads go on if this node loses the majority
	}
	now, expired, err := r.viewAt(ctx, f)
	if err != nil || !expired {
		return err
	}
	if err := r.advanceClock(ctx, now); err != nil {
		return notDone(err)
	}
	// Entries before that of the clock may be evaluated by an earlier time, and write what this view has not seen: one
	// that was on its way, or that of a leader in between whose clock is behind. So the first answer does not count.
	return r.viewApplied(ctx, f)
}

// viewApplied shows f the applied state by the clock of the log.
func (r *Replica) viewApplied(ctx context.Context, f func(r kv.Reader) error) error {
	return r.look(ctx, &view{}, f)
}

// look shows f the applied state as v, until ctx ends.
func (r *Replica) look(ctx context.Context, v *view, f func(r kv.Reader) error) error {
	v.work.ctx = ctx
	err := r.state.View(func(base kv.Reader) error {
		v.Reader, v.now = base, max(v.now, base.Now())
		return f(v)
	})
	if err == nil {
		err = v.err // even if a command did not look at it
	}
	return r.sound(err)
}

// viewAt shows f the state by the clock of this node. expired reports that f has met a key that has expired by
// this clock and not by that of the log. Then the log must get that time, and f be called again.
func (r *Replica) viewAt(ctx context.Context, f func(r kv.Reader) error) (now int64, expired bool, err error) {
	v := view{now: max(r.o.Clock(), r.state.Clock())}
	err = r.look(ctx, &v, f)
	return v.now, v.expired, err
}

// sound returns the error of a command that has read the state, unless the state is damaged: then the command was not
// done, and another replica can do it.
func (r *Replica) sound(err error) error {
	if err != nil && r.state.Err() != nil {
		return r.notLeader()
	}
	return err
}

// view is a kv.Reader by another clock.
type view struct {
	kv.Reader
	now     int64
	expired bool
	work    work
	err     error
}

func (v *view) Now() int64 { return v.now }

func (v *view) live(value kv.Value) bool {
	if value.ExpireAt == 0 || value.ExpireAt > v.now {
		return true
	}
	v.expired = true
	return false
}

func (v *view) Get(key []byte) (kv.Value, bool, error) {
	value, ok, err := v.Reader.Get(key)
	if err == nil {
		err = v.spend(value)
	}
	if err != nil || !ok || !v.live(value) {
		return kv.Value{}, false, err
	}
	return value, true, nil
}

func (v *view) Scan(slot uint16, start, limit []byte, reverse bool, f func(key []byte, v kv.Value) bool) error {
	err := v.Reader.Scan(slot, start, limit, reverse, func(key []byte, value kv.Value) bool {
		return v.spend(value) == nil && (!v.live(value) || f(key, value))
	})
	if err == nil {
		err = v.err
	}
	return err
}

// spend returns an error once the time of the command is over.
func (v *view) spend(value kv.Value) error {
	if err := v.work.spend(len(value.Data)); err != nil {
		v.err = err
	}
	return v.err
}

// advanceClock makes now the time of the log, so that all replicas agree on what has expired. Readers share one entry.
func (r *Replica) advanceClock(ctx context.Context, now int64) error {
	lead, err := r.lockLeadership(ctx)
	if err != nil {
		return err
	}
	if r.tick == nil || r.tick.lead != lead || r.tickTime < now {
		t := &tx{lead: lead, now: max(lead.clock, now)}
		if r.tick, err = r.proposeLocked(lead, t); err != nil {
			r.mu.Unlock()
			return err
		}
		r.tickTime = t.now
	}
	p := r.tick
	r.mu.Unlock()
	return p.Wait(ctx)
}
