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
	t.batch.Put(layout.AppendHint(nil, layout.OutcomeExpiryPrefix, until, s, id), nil)
}

// removeOutcome deletes an outcome, unless it has a later time by now.
func (t *tx) removeOutcome(h hint) error {
	value, err := t.outcomeIn(h.slot, h.id)
	if err != nil {
		return err
	}
	if until, _, err := layout.ParseOutcome(value); err == nil && until == h.at {
		dbKey := layout.AppendOutcomeKey(nil, h.slot, h.id)
		t.batch.Delete(dbKey)
		t.note(dbKey, written{deleted: true})
	}
	return nil
}
