package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"slices"

	"github.com/sievedb/sievedb/db"
)

// inTxn is the slot of the open transaction, as a reader, after those of the snapshots.
const inTxn = slots

// The answers of a commit besides answerDone. A transaction that conflicts is done again without its reads. Either
// answer is right if a key was changed that has no value, or if iterators read.
const (
	answerConflict = "conflict; done without the reads"
	answerEither   = "done, or a conflict"
)

func right(answer, want []byte) bool {
	return bytes.Equal(answer, want) ||
		string(want) == answerEither && (string(answer) == answerDone || string(answer) == answerConflict)
}

// modelTxn is the open transaction of a model.
type modelTxn struct {
	start   moment
	shows   *model
	bulk    bool // it never conflicts
	writes  []Write
	reads   map[string]bool // keys
	walked  bool            // by iterators, which read ranges
	changes []touches       // by others since the start
}

// touches reports whether a change is one of key.
type touches func(key []byte) bool

func (m *model) begin(bulk bool) {
	m.shared = true
	m.txn = &modelTxn{
		start: m.view(-1), bulk: bulk, reads: map[string]bool{},
		shows: &model{compare: m.compare, entries: m.entries, shared: true, now: m.now},
	}
}

func (t *modelTxn) write(writes []Write) {
	t.writes = append(t.writes, writes...)
	for _, w := range writes {
		t.shows.write(t.shows.entryOf(w))
	}
}

// read notes what an operation reads, other than the transaction's own writes.
func (t *modelTxn) read(o *Op) {
	keys := o.Keys
	if o.Kind != MultiGet {
		keys = [][]byte{o.Key}
	}
	for _, key := range keys {
		if !slices.ContainsFunc(t.writes, func(w Write) bool { return bytes.Equal(w.Key, key) }) {
			t.reads[string(key)] = true
		}
	}
}

// note notes a change by others.
func (t *modelTxn) note(change touches) {
	if t != nil {
		t.changes = append(t.changes, change)
	}
}

// commit ends the transaction and returns the answer.
func (m *model) commit() string {
	t := m.txn
	answer := answerDone
	if !t.bulk && len(t.writes) > 0 {
		answer = m.verdict(t)
	}
	m.txn = nil
	for _, w := range t.writes {
		m.write(m.entryOf(w))
	}
	return answer
}

func (m *model) verdict(t *modelTxn) string {
	answer := answerDone
	if t.walked && (len(t.changes) > 0 || m.now != t.start.now) {
		answer = answerEither
	}
	for key := range t.reads {
		touched := slices.ContainsFunc(t.changes, func(change touches) bool { return change([]byte(key)) })
		was, ends := m.getUntil(t.start, []byte(key))
		is, _ := m.get(m.view(-1), []byte(key))
		switch {
		case ends > 0 && ends <= m.now, touched && (was != nil || is != nil):
			return answerConflict
		case touched:
			answer = answerEither
		}
	}
	return answer
}

// txn is a transaction or a bulk transaction.
type txn interface {
	writer
	SetWriteOptions(wo *db.WriteOptions)
	Commit() error
	Close() error
}

func (s *subject) begin(o *Op) error {
	s.own = nil
	if o.Same {
		b, err := s.store.NewBulkTransaction()
		if err != nil {
			return err
		}
		s.txn, s.ofTxn = b, bulkReader{b}
	} else {
		t := s.store.NewTransaction(nil)
		s.txn, s.ofTxn = t, t
	}
	s.txn.SetWriteOptions(o.writeOptions())
	return nil
}

func (s *subject) commit(dst []byte) []byte {
	err := s.txn.Commit()
	if !errors.Is(err, db.ErrConflict) {
		return appendOutcome(dst, err)
	}
	if err := s.apply(&Op{Batch: s.own}); err != nil {
		return appendOutcome(dst, err)
	}
	return append(dst, answerConflict...)
}

// bulkReader gives a bulk transaction the methods of a reader that it has not.
type bulkReader struct{ *db.BulkTransaction }

func (b bulkReader) GetTo(dst, key []byte) ([]byte, error) { return b.GetWith(dst, key, nil) }

func (b bulkReader) MultiGet(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := b.Get(key)
		switch {
		case err == nil:
			values[i] = value
		case !errors.Is(err, db.ErrNotFound):
			return nil, err
		}
	}
	return values, nil
}

func (b bulkReader) All(o *db.IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return b.loop(o, (*db.Iterator).All)
}

func (b bulkReader) Backward(o *db.IterOptions) (iter.Seq2[[]byte, []byte], func() error) {
	return b.loop(o, (*db.Iterator).Backward)
}

func (b bulkReader) loop(
	o *db.IterOptions, all func(*db.Iterator) iter.Seq2[[]byte, []byte],
) (iter.Seq2[[]byte, []byte], func() error) {
	it, err := b.NewIterator(o)
	if err != nil {
		return func(func(key, value []byte) bool) {}, func() error { return err }
	}
	return all(it), func() error { return errors.Join(it.Err(), it.Close()) }
}

// sweep is the compaction filter of a Sweep. What it returns stays as it is the next time.
func sweep(_, value []byte) ([]byte, bool) {
	if !bytes.HasPrefix(value, []byte("v")) {
		return value, true
	}
	switch crc32.ChecksumIEEE(value) % 8 {
	case 0:
		return nil, false
	case 1:
		return append([]byte("swept "), value...), true
	}
	return value, true
}

func (m *model) sweep() {
	var kept []entry
	for _, e := range m.entries {
		value, keep := sweep(e.key, e.value)
		if e.value = value; keep {
			kept = append(kept, e)
		}
	}
	m.entries, m.shared = kept, false
}

func (s *subject) sweep() error {
	o := s.store.Options()
	before := o.Compaction.Filter
	o.Compaction.Filter = sweep
	if err := s.store.SetOptions(&o); err != nil {
		return err
	}
	err := s.store.Compact(context.Background(), nil, nil)
	o.Compaction.Filter = before
	return errors.Join(err, s.store.SetOptions(&o))
}
