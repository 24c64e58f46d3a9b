package replica

import (
	"bytes"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// sweepKeys is how many keys one entry of a sweep removes at most.
const sweepKeys = 1000

// outcomeRounds is after how many searches for keys one for outcomes follows, which are kept for minutes.
const outcomeRounds = 16

// hint is a key or the ID of a request, and when it may have expired.
type hint struct {
	slot uint16
	id   []byte
	at   int64
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
			more, err := r.sweep(layout.ExpiryPrefix, (*tx).removeKey)
			if err == nil && !more && round%outcomeRounds == 0 {
				more, err = r.sweep(layout.OutcomeExpiryPrefix, (*tx).removeOutcome)
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

// sweep removes some of what has expired by hints with a prefix, and these. more reports whether there may be others.
func (r *Replica) sweep(prefix byte, remove func(t *tx, h hint) error) (more bool, err error) {
	now := max(r.o.Clock(), r.state.Clock())
	var found []hint
	err = r.state.HintsBefore(prefix, now, sweepKeys, func(slotNum uint16, id []byte, at int64) bool {
		found = append(found, hint{slotNum, bytes.Clone(id), at})
		return true
	})
	if err != nil || len(found) == 0 {
		return false, err
	}
	p, err := r.update(r.ctx, 0, func(t *tx) error {
		for _, h := range found {
			if h.at > t.now {
				continue
			}
			if err := remove(t, h); err != nil {
				return err
			}
			t.batch.Delete(layout.AppendHint(nil, prefix, h.at, h.slot, h.id))
			t.wrote = true
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return len(found) == sweepKeys, p.Wait(r.ctx)
}

// removeKey deletes a key if it has really expired: it may have been deleted, or have another time by now.
func (t *tx) removeKey(h hint) error {
	v, live, err := t.unexpired(h.id)
	if err == nil && (!live || v.ExpireAt == h.at) {
		t.Delete(h.id)
	}
	return err
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
