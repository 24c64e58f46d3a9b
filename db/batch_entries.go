package db

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/batch"
	"github.com/sievedb/sievedb/internal/errors"
)

// EntryKind says what an entry of a Batch does.
type EntryKind uint8

// The kinds of entries. More may be added, so programs must not treat an unknown kind as one of these.
const (
	EntryPut EntryKind = iota + 1
	EntryDelete
	EntryDeleteRange
)

// BatchEntry is one write of a Batch. Its slices are the batch's memory: they must not be
// changed, and they are valid until the batch is reset.
type BatchEntry struct {
	Kind  EntryKind
	Key   []byte        // the start of an EntryDeleteRange; nil: no bound
	Value []byte        // nil for a deletion; the limit of an EntryDeleteRange; nil: no bound
	TTL   time.Duration // of PutTTL, otherwise 0
}

// All returns the entries that the batch holds now, numbered from 0 in the order in which
// they were added. Writes that the loop adds to the batch are not among them.
func (b *Batch) All() iter.Seq2[int, BatchEntry] {
	return func(yield func(int, BatchEntry) bool) {
		if b.Len() == 0 {
			return
		}
		ranges, ttls := b.ranges, b.ttls
		var r batch.Reader
		if b.entries > 0 {
			r = batch.ReaderOf(b.data[batch.HeaderLen:], b.entries)
		}
		points := 0
		for i := 0; ; i++ {
			if len(ranges) > 0 && ranges[0].after == points {
				if !yield(i, BatchEntry{Kind: EntryDeleteRange, Key: ranges[0].Start, Value: ranges[0].Limit}) {
					return
				}
				ranges = ranges[1:]
				continue
			}
			kind, key, value, _, ok, _ := r.Next()
			if !ok {
				return
			}
			e := BatchEntry{Kind: EntryPut, Key: key, Value: value, TTL: ttls.Next(points)}
			points++
			if kind == base.KindDelete {
				e.Kind = EntryDelete
			}
			if !yield(i, e) {
				return
			}
		}
	}
}

// Append adds the entries of other, which does not change. The limits are those of Put. If
// other is a copy of another Batch, or if one of its own writes was refused, Apply of b
// returns that error.
func (b *Batch) Append(other *Batch) {
	switch {
	case b == nil:
		panic("sievedb: a write to a nil *Batch; use &db.Batch{}")
	case other == nil || !b.begin():
		return // Apply returns the error
	}
	defer b.end()
	if other != b {
		if !other.begin() {
			b.refuse(other.misuse())
			return
		}
		defer other.end()
	}
	if other.refused != nil {
		b.refuse(other.refused)
		return
	}
	for _, r := range other.ranges {
		b.ranges = append(b.ranges, batchRange{r.Span, r.after + int(b.entries)})
	}
	if other.count() == 0 {
		return
	}
	entries := other.data[batch.HeaderLen:]
	size, count := uint64(len(b.data))+uint64(len(entries)), uint64(b.count())+uint64(other.count())
	if err := checkBatchSize(size, count); err != nil {
		b.refuse(err)
		return
	}
	b.ttls.Append(int(b.entries), other.ttls)
	b.data = append(b.started(), entries...)
	b.entries = uint32(count)
	b.memSize += other.memSize
}

// AppendBinary appends the batch's bytes to dst, in LevelDB's format (see Batch) with the
// sequence number 0. It implements encoding.BinaryAppender. For a batch that Apply refuses
// it returns the same error. A batch with entries of PutTTL is an error, since the format has no
// place for their times to live.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	if b == nil {
		return append(dst, emptyBatch[:]...), nil
	}
	if !b.begin() {
		return dst, b.misuse()
	}
	defer b.end()
	switch {
	case b.refused != nil:
		return dst, b.refused
	case b.memSize > MaxBatchSize:
		return dst, tooLargeInMemory(b.memSize, b.entries)
	case len(b.ranges) > 0:
		return dst, errors.New("sievedb: a Batch with DeleteRange has no binary form: LevelDB's batches have no entry for a range; " +
			"apply it, or store its entries by your own means (Batch.All)")
	case len(b.ttls) > 0:
		return dst, errors.New("sievedb: the batch has entries of PutTTL, and LevelDB's format has no place for their times to live; " +
			"encode the entries of Batch.All")
	}
	from := len(dst)
	if b.count() == 0 {
		return append(dst, emptyBatch[:]...), nil
	}
	dst = append(dst, b.data...)
	binary.LittleEndian.PutUint64(dst[from:], 0)
	binary.LittleEndian.PutUint32(dst[from+8:], b.entries)
	return dst, nil
}

// MarshalBinary returns a copy of the batch's bytes, as AppendBinary appends them. It
// implements encoding.BinaryMarshaler.
func (b *Batch) MarshalBinary() ([]byte, error) { return b.AppendBinary(nil) }

// UnmarshalBinary replaces the content of the batch with that of data, which AppendBinary or
// LevelDB made. It copies data and ignores the sequence number in it. If data
// is not a batch it returns ErrCorruption, and if the batch or an entry is above the limits
// ErrTooLarge; the batch does not change then. It implements encoding.BinaryUnmarshaler.
func (b *Batch) UnmarshalBinary(data []byte) error {
	if b == nil {
		panic("sievedb: a write to a nil *Batch; use &db.Batch{}")
	}
	if !b.begin() {
		return b.misuse()
	}
	defer b.end()
	if len(data) < batch.HeaderLen {
		return base.Corruptf("batch", 0, "it is %d bytes long, want at least %d", len(data), batch.HeaderLen)
	}
	count := binary.LittleEndian.Uint32(data[8:])
	r := batch.ReaderOf(data[batch.HeaderLen:], count)
	if err := checkBatchSize(uint64(len(data)), uint64(count)); err != nil {
		return err
	}
	for ok := true; ok; {
		var key, value []byte
		var err error
		if _, key, value, _, ok, err = r.Next(); err == nil && ok {
			err = checkEntry(key, value)
		}
		if err != nil {
			return err
		}
	}
	copied := append([]byte(nil), data...)
	batch.SetSeq(copied, 0)
	_, memSize, err := batch.Check(copied)
	switch {
	case err != nil:
		return err
	case memSize > MaxBatchSize:
		return tooLargeInMemory(memSize, count)
	}
	if count == 0 {
		copied = nil
	}
	b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls = copied, count, memSize, nil, nil, nil
	return nil
}
