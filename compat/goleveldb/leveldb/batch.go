package leveldb

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/sievedb/sievedb/db"
)

// BatchReplay receives the writes of a batch.
type BatchReplay interface {
	Put(key, value []byte)
	Delete(key []byte)
}

// Batch collects writes that DB.Write applies together. The zero Batch is empty. It must not be copied
// after its first write. It is changed by one goroutine at a time; several may pass it to Write, Replay and
// Dump while it does not change.
type Batch struct {
	b db.Batch
	// single is held by calls that use b alone although they do not change the writes: applying puts the
	// sequence number into b.
	single sync.Mutex
}

// apply applies the batch to a store.
func (b *Batch) apply(store *db.DB, wo *db.WriteOptions) error {
	b.single.Lock()
	defer b.single.Unlock()
	return store.Apply(&b.b, wo)
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
func (b *Batch) Put(key, value []byte) { b.b.Put(key, value) }

// Delete adds a deletion of key, which it copies.
func (b *Batch) Delete(key []byte) { b.b.Delete(key) }

// Len returns the number of writes.
func (b *Batch) Len() int { return b.b.Len() }

// Reset empties the batch.
func (b *Batch) Reset() { b.b.Reset() }

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
	b.single.Lock()
	defer b.single.Unlock()
	data, err := b.b.MarshalBinary()
	if err != nil {
		return nil
	}
	return data[batchHeader:]
}

// Load replaces the content of the batch by the writes that Dump returned. It copies them. After an
// error, an *errors.ErrCorrupted, the batch has the writes before the damage.
func (b *Batch) Load(data []byte) error {
	b.b.Reset()
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
			b.b.Delete(key)
			data = rest
			continue
		}
		value, rest, ok := cutSlice(rest)
		if !ok {
			return corruptBatch("bad record: invalid value length")
		}
		b.b.Put(key, value)
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

// Replay calls r for each write, in order. The slices are valid until Reset; an empty value is nil. The
// error is always nil.
func (b *Batch) Replay(r BatchReplay) error {
	for _, e := range b.b.All() {
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
