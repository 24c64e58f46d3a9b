package leveldb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/sievedb/sievedb/db"

	"github.com/syndtr/goleveldb/leveldb/opt"
)

// BatchReplay receives the writes of a batch.
type BatchReplay interface {
	Put(key, value []byte)
	Delete(key []byte)
}

// Batch collects writes that DB.Write applies together. The zero Batch is empty. It is changed by one
// goroutine at a time; several may pass it to Write, Replay and Dump while it does not change. A copy has
// the writes that the original had. It is lost when the original is filled again after Reset.
type Batch struct {
	n int // the number of writes
	// w has the writes. nil: there were none so far.
	w     *writes
	round int // w.round when the writes were added
	// owner is the batch itself from its first write on. Only the owner adds to w. So a copy, whose owner
	// is the original, first gets writes of its own.
	owner *Batch
}

// writes is the content of a batch, and of its copies.
type writes struct {
	b     db.Batch
	round int // how often b was emptied
	// single is held by calls that use b alone although they do not change the writes: applying puts the
	// sequence number into b.
	single sync.Mutex
}

// claiming is held when a call that several goroutines may make at once gives a copy writes of its own. It
// is no field of Batch, because go vet would report each copy.
var claiming sync.Mutex

// errLostCopy is the error for a copy whose original was filled again.
var errLostCopy = errors.New("leveldb: the batch is a copy, and its writes were lost when the original was reset and filled again; " +
	"write the copy before that, or use Dump and Load")

// own gives the batch writes of its own, if it is a copy.
func (b *Batch) own() {
	if b.owner == b {
		return
	}
	own := &writes{}
	if b.n > 0 && b.w.round == b.round {
		for i, e := range b.w.b.All() {
			if i == b.n {
				break
			}
			add(&own.b, e)
		}
	}
	b.owner, b.w, b.round = b, own, 0
}

func add(b *db.Batch, e db.BatchEntry) {
	if e.Kind == db.EntryDelete {
		b.Delete(e.Key)
	} else {
		b.Put(e.Key, e.Value)
	}
}

// adding returns where the next write goes. Reset leaves it to adding to empty w, for copies of the batch.
func (b *Batch) adding() *db.Batch {
	b.own()
	if b.n == 0 {
		b.w.b.Reset()
		b.w.round++
		b.round = b.w.round
	}
	b.n++
	return &b.w.b
}

// complete returns the writes, for calls that do not change them. It fails if one is missing.
func (b *Batch) complete() (*writes, error) {
	if b.n == 0 {
		return &writes{}, nil
	}
	claiming.Lock()
	b.own()
	w := b.w
	claiming.Unlock()
	if w.b.Len() == b.n {
		return w, nil
	}
	if _, err := w.marshal(); err != nil {
		return nil, err // a write is too large
	}
	return nil, errLostCopy
}

func (w *writes) marshal() ([]byte, error) {
	w.single.Lock()
	defer w.single.Unlock()
	return w.b.MarshalBinary()
}

// apply applies the batch to a store.
func (b *Batch) apply(d *DB, wo *opt.WriteOptions) error {
	w, err := b.complete()
	if err != nil {
		return err
	}
	w.single.Lock()
	defer w.single.Unlock()
	if w.b.Size() > d.o.GetWriteBuffer() && !d.o.GetDisableLargeBatchTransaction() {
		wo = &opt.WriteOptions{Sync: true}
	}
	return d.store.Apply(&w.b, d.durability(wo))
}

// BatchConfig is that of MakeBatchWithConfig. Its fields have no effect: memory grows by itself.
type BatchConfig struct {
	InitialCapacity int
	GrowLimit       int
}

// MakeBatch returns an empty batch.
func MakeBatch(n int) *Batch { return &Batch{} }

// MakeBatchWithConfig returns an empty batch.
func MakeBatchWithConfig(config *BatchConfig) *Batch { return &Batch{} }

// Put adds a write of value under key. It copies both.
func (b *Batch) Put(key, value []byte) { b.adding().Put(key, value) }

// Delete adds a deletion of key, which it copies.
func (b *Batch) Delete(key []byte) { b.adding().Delete(key) }

// Len returns the number of writes.
func (b *Batch) Len() int { return b.n }

// Reset empties the batch.
func (b *Batch) Reset() { b.n = 0 }

// batchHeader is the length of the sequence number and the count before the writes.
const batchHeader = 12

// The kinds of writes.
const (
	kindDelete = 0
	kindPut    = 1
)

// Dump returns the writes as bytes, for Load. They belong to the caller. A batch with a write that is
// too large for DB.Write has none.
func (b *Batch) Dump() []byte {
	w, err := b.complete()
	if err != nil || b.n == 0 {
		return nil
	}
	data, err := w.marshal()
	if err != nil {
		return nil
	}
	return data[batchHeader:]
}

// Load replaces the content of the batch by the writes that Dump returned. It copies them. After an
// error, an *errors.ErrCorrupted, the batch has the writes before the damage.
func (b *Batch) Load(data []byte) error {
	b.Reset()
	for len(data) > 0 {
		kind := data[0]
		if kind > kindPut {
			return corruptBatch(fmt.Sprintf("bad record: invalid type %#x", kind))
		}
		key, rest, ok := cutSlice(data[1:])
		if !ok {
			return corruptBatch("bad record: invalid key length")
		}
		if kind == kindDelete {
			b.Delete(key)
			data = rest
			continue
		}
		value, rest, ok := cutSlice(rest)
		if !ok {
			return corruptBatch("bad record: invalid value length")
		}
		b.Put(key, value)
		data = rest
	}
	return nil
}

// cutSlice returns the bytes that follow their length, and what is after them.
func cutSlice(data []byte) (slice, rest []byte, ok bool) {
	length, n := binary.Uvarint(data)
	if n <= 0 || length > uint64(len(data)-n) {
		return nil, nil, false
	}
	end := n + int(length)
	return data[n:end:end], data[end:], true
}

// Replay calls r for each write, in order. The slices are valid until Reset; an empty value is nil. A
// batch with a write that is too large for DB.Write is refused, and r not called.
func (b *Batch) Replay(r BatchReplay) error {
	w, err := b.complete()
	if err != nil {
		return err
	}
	for _, e := range w.b.All() {
		switch {
		case e.Kind == db.EntryDelete:
			r.Delete(e.Key)
		case len(e.Value) == 0:
			r.Put(e.Key, nil)
		default:
			r.Put(e.Key, e.Value)
		}
	}
	return nil
}
