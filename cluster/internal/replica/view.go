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
		return notDone(r.definite(err))
	}
	if stale {
		r.fresh.note(began) // such reads go on if this node loses the majority
	}
	now, expired, err := r.viewAt(f)
	if err != nil || !expired {
		return err
	}
	if err := r.advanceClock(ctx, now); err != nil {
		return notDone(err)
	}
	// Entries before that of the clock may be evaluated by an earlier time, and write what this view has not seen: one
	// that was on its way, or that of a leader in between whose clock is behind. So the first answer does not count.
	return r.sound(r.state.View(f))
}

// viewAt shows f the state by the clock of this node. expired reports that f has met a key that has expired by
// this clock and not by that of the log. Then the log must get that time, and f be called again.
func (r *Replica) viewAt(f func(r kv.Reader) error) (now int64, expired bool, err error) {
	v := view{now: max(r.o.Clock(), r.state.Clock())}
	err = r.state.View(func(base kv.Reader) error {
		v.Reader = base
		return f(&v)
	})
	return v.now, v.expired, r.sound(err)
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
	if !ok || !v.live(value) {
		return kv.Value{}, false, err
	}
	return value, true, nil
}

func (v *view) Scan(slot uint16, start, limit []byte, reverse bool, f func(key []byte, v kv.Value) bool) error {
	return v.Reader.Scan(slot, start, limit, reverse, func(key []byte, value kv.Value) bool {
		return !v.live(value) || f(key, value)
	})
}

// advanceClock makes now the time of the log, so that all replicas agree on what has expired. Readers share one
// entry.
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
