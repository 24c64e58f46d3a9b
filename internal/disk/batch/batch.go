package batch

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/memtable"
)

// Batch is the content of a batch while a caller fills it; db.Batch documents it. Besides entries
// with their bytes, it has deletions of ranges and times to live, for which the format has no place.
type Batch struct {
	data    []byte // empty, or a header, which Record fills in, and the entries
	entries uint32
	memSize uint64 // upper bound of the arena bytes that the entries need in a memtable
	refused error  // why the batch must not be applied: an entry was too large
	ranges  []span
	ttls    expiry.TTLs
	sealed  bool // the values have their envelopes

	// A record that does not decode would make the log unreadable. So two goroutines
	// never change data at once, and a copy, which shares data, never does.
	owner *Batch // the batch itself from its first use on; a copy's differs from it
	use   atomic.Uint32
}

// span is a deletion of a range.
type span struct {
	start, limit []byte // nil: no bound
	after        int    // how many entries of the batch are before it
}

// The bits of Batch.use.
const (
	inUse   = 1 << iota // a goroutine changes the batch or applies it
	misused             // a call was refused; Reset clears it
)

// Begin makes the caller the only user of b until End. It returns false, and marks b,
// if b is a copy, another goroutine uses it, or it was marked before.
func (b *Batch) Begin() bool {
	if b.owner != b {
		if b.owner != nil {
			b.use.Or(misused)
			return false
		}
		b.owner = b
	}
	if !b.use.CompareAndSwap(0, inUse) {
		b.use.Or(misused)
		return false
	}
	return true
}

// End ends the use that Begin began. It returns false if another goroutine tried to use b meanwhile.
func (b *Batch) End() bool {
	if b.use.CompareAndSwap(inUse, 0) {
		return true
	}
	b.use.And(^uint32(inUse))
	return false
}

// Misuse returns the error for a batch that Begin refuses.
func (b *Batch) Misuse() error {
	if b.owner != b {
		return errors.New("sievedb: the batch is a copy of another Batch and shares its bytes; " +
			"pass a pointer to the original, or Reset the copy and fill it again")
	}
	return errors.New("sievedb: several goroutines used the batch at once, and some of their writes to it were refused; " +
		"give each goroutine its own Batch; Reset this one and fill it again")
}

// Add adds an entry; a deletion has no value. It copies key and value. If they are above the limits,
// or the batch would then be, the batch is refused.
func (b *Batch) Add(kind base.Kind, key, value []byte) {
	if !b.Begin() {
		return // who applies the batch gets the error
	}
	b.add(kind, key, value)
	b.End()
}

func (b *Batch) add(kind base.Kind, key, value []byte) {
	if err := b.checkSize(key, value); err != nil {
		b.Refuse(err)
		return
	}
	b.data = AppendEntry(b.started(), kind, key, value)
	b.entries++
	b.memSize += uint64(memtable.EntrySize(len(key), len(value)))
}

// PutTTL adds an entry whose value expires when ttl has passed. If ttl is not positive the batch is refused.
func (b *Batch) PutTTL(key, value []byte, ttl time.Duration) {
	b.Add(base.KindSet, key, value)
	if b.Begin() {
		b.Refuse(b.ttls.Add(int(b.entries)-1, ttl))
		b.End()
	}
}

// PutUntil adds an entry whose value expires at a deadline, which may be expiry.Never.
func (b *Batch) PutUntil(key, value []byte, deadline uint64) {
	b.Add(base.KindSet, key, value)
	if deadline != expiry.Never && b.Begin() {
		b.ttls.AddUntil(int(b.entries)-1, deadline)
		b.End()
	}
}

// DeleteRange adds the deletion of all keys from start to limit, limit excluded; nil means no bound. It copies both.
func (b *Batch) DeleteRange(start, limit []byte) {
	if !b.Begin() {
		return
	}
	defer b.End()
	for _, key := range [][]byte{start, limit} {
		if err := CheckEntry(key, nil); err != nil {
			b.Refuse(err)
			return
		}
	}
	b.ranges = append(b.ranges, span{cloneBound(start), cloneBound(limit), int(b.entries)})
}

// cloneBound copies a bound, which may be nil.
func cloneBound(key []byte) []byte {
	if key == nil {
		return nil
	}
	return append([]byte{}, key...)
}

// started returns the batch's bytes, which begin with room for the header.
func (b *Batch) started() []byte {
	if len(b.data) == 0 {
		return append(b.data, empty[:]...)
	}
	return b.data
}

// empty is the header of a batch without entries.
var empty [HeaderLen]byte

// Grow makes room for n more bytes of entries, up to MaxBatchSize in all.
func (b *Batch) Grow(n int) {
	if !b.Begin() {
		return // as in Add
	}
	if n = min(n, MaxBatchSize-len(b.data)); n > 0 {
		b.data = slices.Grow(b.data, n+HeaderLen)
	}
	b.End()
}

// Refuse makes Refused return err, unless it returns another error: a batch must not be applied in part.
func (b *Batch) Refuse(err error) {
	if b.refused == nil {
		b.refused = err
	}
}

// Refused returns why the batch must not be applied, or nil.
func (b *Batch) Refused() error { return b.refused }

// Append adds the entries of other, which does not change. If the sum is above the limits, or if
// other must not be applied, the batch is refused.
func (b *Batch) Append(other *Batch) {
	if !b.Begin() {
		return
	}
	defer b.End()
	if other != b {
		if !other.Begin() {
			b.Refuse(other.Misuse())
			return
		}
		defer other.End()
	}
	if other.refused != nil {
		b.Refuse(other.refused)
		return
	}
	for _, r := range other.ranges {
		r.after += int(b.entries)
		b.ranges = append(b.ranges, r)
	}
	if other.entries == 0 {
		return
	}
	entries := other.Entries()
	size, count := uint64(len(b.data))+uint64(len(entries)), uint64(b.entries)+uint64(other.entries)
	if err := checkBatch(size, count); err != nil {
		b.Refuse(err)
		return
	}
	b.ttls.Append(int(b.entries), other.ttls)
	b.data = append(b.started(), entries...)
	b.entries = uint32(count)
	b.memSize += other.memSize
}

// Len returns the number of writes in the batch, a DeleteRange being one.
func (b *Batch) Len() int { return int(b.entries) + len(b.ranges) }

// Size returns the number of bytes that the batch needs in the log.
func (b *Batch) Size() int { return len(b.data) }

// Count returns the number of entries.
func (b *Batch) Count() uint32 { return b.entries }

// MemSize returns an upper bound of the bytes that the entries need in a memtable.
func (b *Batch) MemSize() uint64 { return b.memSize }

// HasRanges reports whether the batch deletes a range.
func (b *Batch) HasRanges() bool { return len(b.ranges) > 0 }

// Entries returns the bytes of the entries, nil if there are none. They belong to the batch.
func (b *Batch) Entries() []byte {
	if b.entries == 0 {
		return nil
	}
	return b.data[HeaderLen:]
}

// Record returns the log record of a batch with entries, numbered from first on. Its bytes belong to the batch.
func (b *Batch) Record(first uint64) []byte {
	SetSeq(b.data, first)
	binary.LittleEndian.PutUint32(b.data[8:], b.entries)
	return b.data
}

// maxKept bounds the memory in bytes that a Batch keeps for its next use. Without it,
// one large value would stay in memory as long as the Batch. Pebble keeps 1 MiB.
const maxKept = 4 << 20

// Reset empties the batch. It keeps its memory, unless that is more than 4 MiB. A copy gets
// its own memory and can be used from then on.
func (b *Batch) Reset() {
	switch {
	case b.owner != b && b.owner != nil:
		b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls, b.owner = nil, 0, 0, nil, nil, nil, nil
		b.use.Store(0)
	case b.use.CompareAndSwap(0, inUse) || b.use.CompareAndSwap(misused, inUse):
		if cap(b.data) > maxKept {
			b.data = nil
		}
		b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls, b.sealed = b.data[:0], 0, 0, nil, nil, nil, false
		b.End()
	default:
		b.use.Or(misused)
	}
}

// Cap returns the number of bytes that the batch has memory for.
func (b *Batch) Cap() int { return cap(b.data) }

// CheckMemory returns why a batch cannot be applied: the entries need too much memory.
func (b *Batch) CheckMemory() error { return checkMemory(b.memSize, b.entries) }

// checkSize returns why an entry cannot be added.
func (b *Batch) checkSize(key, value []byte) error {
	if err := CheckEntry(key, value); err != nil {
		return err
	}
	const framing = 11 // kind and lengths, at most
	return checkBatch(uint64(len(b.data))+uint64(len(key))+uint64(len(value))+framing, uint64(b.entries)+1)
}

// checkBatch returns why a batch cannot have that many bytes and entries.
func checkBatch(size, entries uint64) error {
	switch {
	case size > MaxBatchSize:
		return tooLargef("the batch would take %d bytes with its entry %d, and at most %d (MaxBatchSize) are supported; apply it in parts",
			size, entries, MaxBatchSize)
	case entries > math.MaxInt32:
		return tooLargef("the batch has %d entries, and %d are supported; apply it in parts", entries, math.MaxInt32)
	}
	return nil
}
