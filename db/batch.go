package db

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/expiry"
	"github.com/sievedb/sievedb/memtable"
)

// Batch collects writes that Apply makes visible and durable together, all or
// none. Within a batch a later write to a key wins. The zero Batch is empty and
// ready. A Batch is used by one goroutine at a time and may be reused after
// Reset, or applied again as it is. It must not be copied after its first write,
// because the copy shares its bytes. A write to a copy, or while another goroutine
// uses the batch, is refused; from then on Apply returns an error that says so, until
// Reset.
//
// Its bytes are the payload of a log record (LevelDB's db/write_batch.cc):
//
//	fixed64 sequence of the first entry | fixed32 count | entries
//	entry: kind (1 put, 0 delete) | length-prefixed key | length-prefixed value (put only)
type Batch struct {
	data    []byte // empty, or a header, which setSeq fills in, and the entries
	entries uint32
	memSize uint64 // upper bound of the arena bytes that the entries need in a memtable
	refused error  // why Apply refuses the batch: an entry was too large
	ranges  []batchRange
	ttls    expiry.TTLs
	sealed  bool // the values have their envelopes

	// A record that does not decode would make the log unreadable. So two goroutines
	// never change data at once, and a copy, which shares data, never does.
	owner *Batch // the batch itself from its first use on; a copy's differs from it
	use   atomic.Uint32
}

// The bits of Batch.use.
const (
	batchInUse   = 1 << iota // a goroutine changes the batch or applies it
	batchMisused             // a call was refused; Reset clears it
)

// begin makes the caller the only user of b until end. It returns false, and marks b,
// if b is a copy, another goroutine uses it, or it was marked before.
func (b *Batch) begin() bool {
	if b.owner != b {
		if b.owner != nil {
			b.use.Or(batchMisused)
			return false
		}
		b.owner = b
	}
	if !b.use.CompareAndSwap(0, batchInUse) {
		b.use.Or(batchMisused)
		return false
	}
	return true
}

// end ends the use that begin began. It returns false if another goroutine tried to use b
// meanwhile.
func (b *Batch) end() bool {
	if b.use.CompareAndSwap(batchInUse, 0) {
		return true
	}
	b.use.And(^uint32(batchInUse))
	return false
}

// misuse returns the error for a batch that begin refuses.
func (b *Batch) misuse() error {
	if b.owner != b {
		return errors.New("sievedb: the batch is a copy of another Batch and shares its bytes; " +
			"pass a pointer to the original, or Reset the copy and fill it again")
	}
	return errors.New("sievedb: several goroutines used the batch at once, and some of their writes to it were refused; " +
		"give each goroutine its own Batch; Reset this one and fill it again")
}

// Put adds a write of value under key. It copies both. If the key is above MaxKeySize, the
// value above MaxValueSize, or the batch would then be above MaxBatchSize, Apply will
// return ErrTooLarge.
func (b *Batch) Put(key, value []byte) { b.add(base.KindSet, key, value) }

// PutTTL is Put for a value that readers see until ttl has passed, from Apply on. It must be
// positive, and the key under one of Options.Expiry.Prefixes; otherwise Apply returns an error.
func (b *Batch) PutTTL(key, value []byte, ttl time.Duration) {
	b.add(base.KindSet, key, value)
	if b.begin() { // otherwise Apply returns the error
		b.refuse(b.ttls.Add(int(b.entries)-1, ttl))
		b.end()
	}
}

// Delete adds a deletion of key. Deleting a key that does not exist is no error. The limits
// are those of Put.
func (b *Batch) Delete(key []byte) { b.add(base.KindDelete, key, nil) }

// add adds an entry; a deletion has no value.
func (b *Batch) add(kind base.Kind, key, value []byte) {
	if b == nil {
		panic("sievedb: a write to a nil *Batch; use &db.Batch{}")
	}
	if !b.begin() {
		return // Apply returns the error
	}
	b.addEntry(kind, key, value)
	b.end()
}

func (b *Batch) addEntry(kind base.Kind, key, value []byte) {
	if err := b.checkSize(key, value); err != nil {
		b.refuse(err)
		return
	}
	b.data = batch.AppendEntry(b.started(), kind, key, value)
	b.entries++
	b.memSize += uint64(memtable.EntrySize(len(key), len(value)))
}

// started returns the batch's bytes, which begin with room for the header.
func (b *Batch) started() []byte {
	if len(b.data) == 0 {
		return append(b.data, emptyBatch[:]...)
	}
	return b.data
}

// refuse makes Apply return err: a batch must not be applied in part.
func (b *Batch) refuse(err error) {
	if b.refused == nil {
		b.refused = err
	}
}

// checkSize returns why an entry cannot be added.
func (b *Batch) checkSize(key, value []byte) error {
	if err := checkEntry(key, value); err != nil {
		return err
	}
	const framing = 11 // kind and lengths, at most
	return checkBatchSize(uint64(len(b.data))+uint64(len(key))+uint64(len(value))+framing, uint64(b.count())+1)
}

// checkBatchSize returns why a batch cannot have that many bytes and entries.
func checkBatchSize(size, entries uint64) error {
	switch {
	case size > MaxBatchSize:
		return tooLargef("the batch would take %d bytes with its entry %d, and at most %d (MaxBatchSize) are supported; apply it in parts",
			size, entries, MaxBatchSize)
	case entries > math.MaxInt32:
		return tooLargef("the batch has %d entries, and %d are supported; apply it in parts", entries, math.MaxInt32)
	}
	return nil
}

func tooLargeInMemory(size uint64, entries uint32) error {
	return tooLargef("the %d entries of the batch take up to %d bytes in memory, and at most %d are supported; apply it in parts",
		entries, size, MaxBatchSize)
}

var emptyBatch [batch.HeaderLen]byte

// Len returns the number of writes in the batch, a DeleteRange being one.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return int(b.entries) + len(b.ranges)
}

// Size returns the number of bytes that the batch needs in the log.
func (b *Batch) Size() int {
	if b == nil {
		return 0
	}
	return len(b.data)
}

// maxKeptBatch bounds the memory in bytes that a Batch keeps for its next use. Without it,
// one large value would stay in memory as long as the Batch. Pebble keeps 1 MiB.
const maxKeptBatch = 4 << 20

// Reset empties the batch. It keeps its memory, unless that is more than 4 MiB. A copy gets
// its own memory and can be used from then on.
func (b *Batch) Reset() {
	switch {
	case b == nil:
	case b.owner != b && b.owner != nil:
		b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls, b.owner = nil, 0, 0, nil, nil, nil, nil
		b.use.Store(0)
	case b.use.CompareAndSwap(0, batchInUse) || b.use.CompareAndSwap(batchMisused, batchInUse):
		if cap(b.data) > maxKeptBatch {
			b.data = nil
		}
		b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls, b.sealed = b.data[:0], 0, 0, nil, nil, nil, false
		b.end()
	default:
		b.use.Or(batchMisused)
	}
}

func (b *Batch) count() uint32 {
	if b == nil {
		return 0
	}
	return b.entries
}

// setSeq fills in the header of a batch that is not empty.
func (b *Batch) setSeq(first uint64) {
	batch.SetSeq(b.data, first)
	binary.LittleEndian.PutUint32(b.data[8:], b.entries)
}
