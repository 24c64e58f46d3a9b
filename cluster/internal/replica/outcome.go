package replica

import (
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// Outcome implements kv.Tx.
func (t *tx) Outcome(key, id []byte) ([]byte, error) {
	value, err := t.outcomeIn(slot.Of(key), id)
	if err == nil && value != nil {
		var until int64
		if until, value, err = layout.ParseOutcome(value); err == nil && until <= t.now {
			return nil, nil
		}
	}
	if err != nil {
		t.err = err
	}
	return value, err
}

// outcomeIn returns the newest outcome as it is stored; nil if there is none.
func (t *tx) outcomeIn(slotNum uint16, id []byte) ([]byte, error) {
	dbKey := layout.AppendOutcomeKey(nil, slotNum, id)
	w, newer := t.writes[string(dbKey)]
	if !newer {
		w, newer = t.lead.overlay.writes[string(dbKey)]
	}
	if newer {
		return w.value.Data, nil
	}
	return t.base.(OutcomeReader).Outcome(slotNum, id)
}

// SetOutcome implements kv.Tx.
func (t *tx) SetOutcome(key, id, outcome []byte, until int64) {
	if !t.spend(len(outcome)) {
		return
	}
	t.wrote = true
	s := slot.Of(key)
	dbKey, value := layout.AppendOutcomeKey(nil, s, id), layout.AppendOutcome(nil, until, outcome)
	t.batch.Put(dbKey, value)
	t.note(dbKey, written{value: kv.Value{Data: value}})
	t.batch.Put(layout.AppendOutcomeExpiry(nil, until, s, id), nil)
}

// expiredOutcome is an outcome that may not be kept any more.
type expiredOutcome struct {
	slot  uint16
	id    []byte
	until int64
}

// sweepOutcomes removes some of the outcomes whose time is over. more reports whether there may be others.
func (r *Replica) sweepOutcomes() (more bool, err error) {
	now := max(r.o.Clock(), r.state.Clock())
	var found []expiredOutcome
	err = r.state.OutcomesBefore(now, sweepKeys, func(slotNum uint16, id []byte, until int64) bool {
		found = append(found, expiredOutcome{slotNum, append([]byte(nil), id...), until})
		return true
	})
	if err != nil || len(found) == 0 {
		return false, err
	}
	p, err := r.update(r.ctx, 0, func(t *tx) error { return t.removeOutcomes(found) })
	if err != nil {
		return false, err
	}
	return len(found) == sweepKeys, p.Wait(r.ctx)
}

// removeOutcomes deletes the hints, and those outcomes that have no later time by now.
func (t *tx) removeOutcomes(found []expiredOutcome) error {
	for _, e := range found {
		if e.until > t.now {
			continue
		}
		value, err := t.outcomeIn(e.slot, e.id)
		if err != nil {
			return err
		}
		if until, _, err := layout.ParseOutcome(value); err == nil && until == e.until {
			dbKey := layout.AppendOutcomeKey(nil, e.slot, e.id)
			t.batch.Delete(dbKey)
			t.note(dbKey, written{deleted: true})
		}
		t.batch.Delete(layout.AppendOutcomeExpiry(nil, e.until, e.slot, e.id))
		t.wrote = true
	}
	return nil
}
