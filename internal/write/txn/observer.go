package txn

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// Observer records what the function of an Update writes by other means than its transaction.
type Observer struct {
	observing atomic.Int32 // how many functions; hot paths stop here while it is 0
	mu        sync.Mutex
	observed  map[uint64]*Observation // by goroutine; mu guards it
}

// Observation is a call of the function of an Update. Only its goroutine uses it.
type Observation struct {
	written []Range
	outer   *Observation // of the same goroutine
}

// Observe calls the function of an Update, and returns what it wrote by other means than its transaction.
func (b *Observer) Observe(f func() error) ([]Range, error) {
	id, o := base.GoroutineID(), &Observation{}
	if id == 0 {
		return nil, f()
	}
	b.mu.Lock()
	if b.observed == nil {
		b.observed = make(map[uint64]*Observation)
	}
	o.outer, b.observed[id] = b.observed[id], o
	b.observing.Add(1)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.observed[id] = o.outer; o.outer == nil {
			delete(b.observed, id)
		}
		b.observing.Add(-1)
	}()
	err := f()
	return o.written, err
}

// Observing returns how many functions are observed.
func (b *Observer) Observing() int32 { return b.observing.Load() }

// Observation returns that of this goroutine, or nil.
func (b *Observer) Observation() *Observation {
	if b.observing.Load() == 0 {
		return nil
	}
	return b.observation()
}

func (b *Observer) observation() *Observation {
	id := base.GoroutineID()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.observed[id]
}

// Note records a write.
func (o *Observation) Note(lower, upper []byte, closed bool) {
	r := Range{Lower: slices.Clone(lower), Upper: slices.Clone(upper), Closed: closed}
	for ; o != nil; o = o.outer {
		o.written = append(o.written, r)
	}
}

// NoteKey records a write of a key.
func (o *Observation) NoteKey(key []byte) {
	key = append([]byte{}, key...) // nil would be no bound
	o.Note(key, key, true)
}

// NoteBatch is NoteKey for the keys of a batch.
func (o *Observation) NoteBatch(b *batch.Batch) {
	r := batch.ReaderOf(b.Entries(), b.Count())
	for _, key, _, _, ok, _ := r.Next(); ok; _, key, _, _, ok, _ = r.Next() {
		o.NoteKey(key)
	}
}
