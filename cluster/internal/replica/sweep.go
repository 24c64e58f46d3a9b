package replica

import (
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// sweepKeys is how many keys one entry of a sweep removes at most.
const sweepKeys = 1000

// outcomeRounds is after how many searches for keys one for outcomes follows, which are kept for minutes.
const outcomeRounds = 16

// expiring is a key that may have expired, and when.
type expiring struct {
	key []byte
	at  int64
}

// sweepLoop removes keys that have expired, while this node leads.
func (r *Replica) sweepLoop() {
	defer r.group.Done()
	ticker := time.NewTicker(r.o.SweepEvery)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-ticker.C:
		case <-r.ctx.Done():
			return
		}
		for r.Leading() {
			more, err := r.sweep()
			if err == nil && !more && round%outcomeRounds == 0 {
				more, err = r.sweepOutcomes()
			}
			if err != nil && r.ctx.Err() == nil && r.Leading() {
				r.o.Logger.Warn("expired keys could not be removed", "group", r.o.Group, "err", err)
			}
			if err != nil || !more {
				break
			}
		}
	}
}

// sweep removes some of the keys that have expired. more reports whether there may be others.
func (r *Replica) sweep() (more bool, err error) {
	now := max(r.o.Clock(), r.state.Clock())
	var found []expiring
	err = r.state.ExpiredBefore(now, sweepKeys, func(key []byte, at int64) bool {
		found = append(found, expiring{append([]byte(nil), key...), at})
		return true
	})
	if err != nil || len(found) == 0 {
		return false, err
	}
	p, err := r.update(r.ctx, 0, func(t *tx) error { return removeExpired(t, found) })
	if err != nil {
		return false, err
	}
	return len(found) == sweepKeys, p.Wait(r.ctx)
}

// removeExpired deletes the hints, and those keys that have really expired: others were deleted, or have another
// time by now.
func removeExpired(t *tx, found []expiring) error {
	for _, e := range found {
		if e.at > t.now {
			continue
		}
		s := slot.Of(e.key)
		v, live, err := t.unexpired(e.key)
		if err != nil {
			return err
		}
		if !live || v.ExpireAt == e.at {
			t.Delete(e.key)
		}
		t.batch.Delete(layout.AppendExpiry(nil, e.at, s, e.key))
		t.wrote = true
	}
	return nil
}

// unexpired returns the value of a key. live is true unless the key is absent, or has expired by the clock of the
// state.
func (t *tx) unexpired(key []byte) (v kv.Value, live bool, err error) {
	if w, newer := t.find(t.dbKey(key)); newer {
		return w.value, !w.deleted, nil
	}
	return t.base.Get(key)
}

var _ kv.Group = (*Replica)(nil)
