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
		if b.w.round > 0 { // otherwise MakeBatch may have given it memory, of which Reset keeps little
			b.w.b.Reset()
		}
		b.w.round++
		b.round = b.w.round
	}
	b.n++
	return &b.w.b
}

// complete returns the writes, for calls that do not change them. It fails if one is missing.
func (b *Batch) complete() (*writes, error) {
	if b.n == 0 {
		return &noWrites, nil
	}
	claiming.Lock()
	b.own()
	w := b.w
	claiming.Unlock()
	if w.b.Len() == b.n {
		return w, nil
	}
	if _, err := w.b.Entries(); err != nil {
		return nil, err // a write is too large
	}
	return nil, errLostCopy
}

// noWrites is the content of each batch without writes. Nothing is added to it.
var noWrites writes

// dump returns the bytes of the writes, which belong to the batch.
func (b *Batch) dump() ([]byte, error) {
	w, err := b.complete()
	if err != nil {
		return nil, err
	}
	return w.b.Entries()
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

// BatchConfig is that of MakeBatchWithConfig.
type BatchConfig struct {
	// InitialCapacity is the capacity of MakeBatch.
	InitialCapacity int
	// GrowLimit has no effect: memory grows as that of other slices does.
	GrowLimit int
}

// MakeBatch returns an empty batch with memory for n bytes of writes, db.MaxBatchSize at most. A write needs 11
// bytes at most in addition to its key and value.
func MakeBatch(n int) *Batch {
	b := &Batch{}
	b.own()
	b.w.b.Grow(n)
	return b
}

// MakeBatchWithConfig is MakeBatch(config.InitialCapacity).
func MakeBatchWithConfig(config *BatchConfig) *Batch { return MakeBatch(config.InitialCapacity) }

// Put adds a write of value under key. It copies both.
func (b *Batch) Put(key, value []byte) { b.adding().Put(key, value) }

// Delete adds a deletion of key, which it copies.
func (b *Batch) Delete(key []byte) { b.adding().Delete(key) }

// Len returns the number of writes.
func (b *Batch) Len() int { return b.n }

// Reset empties the batch.
func (b *Batch) Reset() { b.n = 0 }

// The kinds of writes.
const (
	kindDelete = 0
	kindPut    = 1
)

// Dump returns the writes as bytes, for Load. They are the memory of the batch: they must not be changed,
// and they are valid until Reset. A batch with a write that is too large for DB.Write has none.
func (b *Batch) Dump() []byte {
	data, err := b.dump()
	if err != nil {
		return nil
	}
	return data
}

// Load replaces the content of the batch by the writes that Dump returned. It copies them. After an
// error, an *errors.ErrCorrupted, the batch has the writes before the damage.
func (b *Batch) Load(data []byte) error {
	b.Reset()
	if len(data) == 0 {
		return nil
	}
	to := b.adding()
	b.n = 0 // of adding
	if to.AppendEntries(data) == nil {
		b.n = to.Len()
		return nil
	}
	return b.loadSlowly(to, data)
}

// loadSlowly is Load for data that is damaged, or has what DB.Write will refuse.
func (b *Batch) loadSlowly(to *db.Batch, data []byte) error {
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
			to.Delete(key)
			b.n++
			data = rest
			continue
		}
		value, rest, ok := cutSlice(rest)
		if !ok {
			return corruptBatch("bad record: invalid value length")
		}
		to.Put(key, value)
		b.n++
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
	data, err := b.dump()
	if err != nil {
		return err
	}
	for len(data) > 0 { // all of it is sound
		kind := data[0]
		key, rest, _ := cutSlice(data[1:])
		if kind == kindDelete {
			r.Delete(key)
			data = rest
			continue
		}
		var value []byte
		if value, rest, _ = cutSlice(rest); len(value) == 0 {
			value = nil
		}
		r.Put(key, value)
		data = rest
	}
	return nil
}
