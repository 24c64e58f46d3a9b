package replica

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

// tx is a kv.Tx: the state, under the overlay, under its own writes.
type tx struct {
	base    kv.Reader
	lead    *leadership
	now     int64
	writes  map[string]written // by the keys of the database
	emptied bool
	batch   db.Batch
	wrote   bool
	expired bool // a key was met that has expired by now, but not yet by the clock of the log
	scratch []byte
	encoded []byte
	err     error // of a read
	work    work
}

func (t *tx) Now() int64 { return t.now }

// dbKey returns the database's key; it is valid until the next call.
func (t *tx) dbKey(key []byte) []byte {
	t.scratch = layout.AppendKey(t.scratch[:0], slot.Of(key), key)
	return t.scratch
}

// find returns what is newer than the state, if there is something.
func (t *tx) find(dbKey []byte) (w written, newer bool) {
	if w, ok := t.writes[string(dbKey)]; ok {
		return w, true
	}
	if t.emptied {
		return written{deleted: true}, true
	}
	if w, ok := t.lead.overlay.writes[string(dbKey)]; ok {
		return w, true
	}
	return written{deleted: true}, t.lead.overlay.emptied != 0
}

// live reports whether a value has not expired. The clock of this node may be ahead of that of the log: then the answer
// counts only if the log gets the time of the transaction, even if nothing is written. Otherwise the key could
// return with a leader whose clock is behind.
func (t *tx) live(v kv.Value) bool {
	if v.ExpireAt == 0 || v.ExpireAt > t.now {
		return true
	}
	t.expired = t.expired || v.ExpireAt > t.lead.clock
	return false
}

func (t *tx) Get(key []byte) (kv.Value, bool, error) {
	v, ok, err := t.unexpired(key)
	if err == nil {
		err = t.work.spend(len(v.Data))
	}
	if err != nil {
		t.err = err
		return kv.Value{}, false, err
	}
	if !ok || !t.live(v) {
		return kv.Value{}, false, err
	}
	return v, true, nil
}

func (t *tx) Scan(slotNum uint16, start, limit []byte, reverse bool, f func(key []byte, v kv.Value) bool) error {
	newer := inSlot(slotNum, start, limit, t.writes, t.lead.overlay.writes)
	if reverse {
		slices.Reverse(newer)
	}
	m := merge{tx: t, slot: slotNum, newer: newer, reverse: reverse, f: f}
	if !t.emptied && t.lead.overlay.emptied == 0 {
		if err := t.base.Scan(slotNum, start, limit, reverse, m.next); err != nil {
			t.err = err
			return err
		}
	}
	for !m.done && len(m.newer) > 0 {
		m.showNewer()
	}
	return t.err
}

// merge shows the keys of the state and newer ones in one order.
type merge struct {
	*tx
	slot    uint16
	newer   [][]byte
	reverse bool
	f       func(key []byte, v kv.Value) bool
	done    bool
}

// next is called with each key of the state.
func (m *merge) next(key []byte, v kv.Value) bool {
	for !m.done && len(m.newer) > 0 {
		c := bytes.Compare(m.newer[0], key)
		if m.reverse {
			c = -c
		}
		if c > 0 {
			break
		}
		m.showNewer()
		if c == 0 {
			return !m.done
		}
	}
	if !m.done && m.live(v) {
		m.show(key, v)
	}
	return !m.done
}

// show shows a key to f, unless the time of the transaction is over.
func (m *merge) show(key []byte, v kv.Value) {
	if err := m.work.spend(len(v.Data)); err != nil {
		m.err, m.done = err, true
		return
	}
	m.done = !m.f(key, v)
}

func (m *merge) showNewer() {
	key := m.newer[0]
	m.newer = m.newer[1:]
	m.scratch = layout.AppendKey(m.scratch[:0], m.slot, key)
	if w, newer := m.find(m.scratch); newer && !w.deleted && m.live(w.value) {
		m.show(key, w.value)
	}
}

func (t *tx) Put(key []byte, v kv.Value) {
	if !t.spend(len(v.Data)) {
		return
	}
	t.wrote = true
	dbKey := t.dbKey(key)
	t.encoded = layout.AppendValue(t.encoded[:0], v)
	t.batch.Put(dbKey, t.encoded)
	t.note(dbKey, written{value: kv.Value{Data: bytes.Clone(v.Data), ExpireAt: v.ExpireAt}})
	if v.ExpireAt != 0 {
		t.encoded = layout.AppendHint(t.encoded[:0], layout.ExpiryPrefix, v.ExpireAt, slot.Of(key), key)
		t.batch.Put(t.encoded, nil)
	}
}

// spend returns false once the time of the transaction is over. Then it fails.
func (t *tx) spend(length int) bool {
	err := t.work.spend(length)
	if err != nil {
		t.err = err
	}
	return err == nil
}

func (t *tx) Delete(key []byte) {
	if !t.spend(0) {
		return
	}
	t.wrote = true
	dbKey := t.dbKey(key)
	t.batch.Delete(dbKey)
	t.note(dbKey, written{deleted: true})
}

func (t *tx) DeleteAll() {
	t.wrote, t.emptied = true, true
	t.batch.Reset()
	clear(t.writes)
}

func (t *tx) note(dbKey []byte, w written) {
	if t.writes == nil {
		t.writes = map[string]written{}
	}
	t.writes[string(dbKey)] = w
}

// entry returns the bytes to propose, as the entry after the newest one.
func (t *tx) entry() ([]byte, error) {
	e := layout.Entry{Chain: t.lead.chain, Time: t.now}
	e.Number++
	if t.emptied {
		e.Kind = layout.EntryDeleteAll
	}
	data := layout.AppendEntryHeader(make([]byte, 0, t.batch.Size()+32), e)
	if t.batch.Len() == 0 {
		return data, nil
	}
	return t.batch.AppendBinary(data)
}
