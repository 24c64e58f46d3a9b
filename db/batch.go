package db

import (
	"iter"
	"slices"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// Batch collects writes that Apply makes visible and durable together, all or none. Within a batch a later write to a
// key wins. The zero Batch is empty and ready. A Batch is used by one goroutine at a time and may be reused after
// Reset, or applied again as it is. It must not be copied after its first write, because the copy shares its bytes. A
// write to a copy, or while another goroutine uses the batch, is refused; from then on Apply returns an error that says
// so, until Reset.
//
// Its bytes are the payload of a log record (LevelDB's db/write_batch.cc):
//
//	fixed64 sequence of the first entry | fixed32 count | entries
//	entry: kind (1 put, 0 delete) | length-prefixed key | length-prefixed value (put only)
type Batch struct{ content batch.Batch }

// own returns the content of a batch, nil for a nil one.
func (b *Batch) own() *batch.Batch {
	if b == nil {
		return nil
	}
	return &b.content
}

// writable returns the content of a batch to which something is written.
func (b *Batch) writable() *batch.Batch {
	if b == nil {
		panic("sievedb: a write to a nil *Batch; use &db.Batch{}")
	}
	return &b.content
}

// Put adds a write of value under key. It copies both. If the key is above MaxKeySize, the value above MaxValueSize, or
// the batch would then be above MaxBatchSize, Apply will return ErrTooLarge.
func (b *Batch) Put(key, value []byte) { b.writable().Add(base.KindSet, key, value) }

// PutTTL is Put for a value that readers see until ttl has passed, from Apply on. It must be
// positive, and the key under one of Options.Expiry.Prefixes; otherwise Apply returns an error.
func (b *Batch) PutTTL(key, value []byte, ttl time.Duration) { b.writable().PutTTL(key, value, ttl) }

// Delete adds a deletion of key. Deleting a key that does not exist is no error. The limits are those of Put.
func (b *Batch) Delete(key []byte) { b.writable().Add(base.KindDelete, key, nil) }

// DeleteRange adds the deletion of all keys from start to limit, limit excluded; nil means no bound. It copies both. It
// deletes what the store has and what the batch has written so far; later writes of the batch stay. Apply then does
// what DB.DeleteRange says. If start is after limit, by the store's comparer, Apply returns an error.
func (b *Batch) DeleteRange(start, limit []byte) { b.writable().DeleteRange(start, limit) }

// Len returns the number of writes in the batch, a DeleteRange being one.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return b.content.Len()
}

// Size returns the number of bytes that the batch needs in the log.
func (b *Batch) Size() int {
	if b == nil {
		return 0
	}
	return b.content.Size()
}

// Reset empties the batch. It keeps its memory, unless that is more than 4 MiB. A copy gets
// its own memory and can be used from then on.
func (b *Batch) Reset() {
	if b != nil {
		b.content.Reset()
	}
}

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
		if b == nil {
			return
		}
		for i, e := range b.content.All() {
			if !yield(i, BatchEntry{EntryKind(e.Kind), e.Key, e.Value, e.TTL}) {
				return
			}
		}
	}
}

// Append adds the entries of other, which does not change. The limits are those of Put. If other is a copy of another
// Batch, or if one of its own writes was refused, Apply of b returns that error.
func (b *Batch) Append(other *Batch) {
	if to := b.writable(); other != nil {
		to.Append(&other.content)
	}
}

// Entries returns the bytes of the entries, in the format above and without the header: what MarshalBinary
// returns from byte 12 on. They are the batch's memory and not a copy: they must not be changed, and they are
// valid until Reset. For a batch without entries they are nil, and its errors are those of AppendBinary.
func (b *Batch) Entries() ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	if err := b.content.Unencodable(); err != nil {
		return nil, err
	}
	return slices.Clip(b.content.Entries()), nil
}

// AppendEntries adds the writes whose bytes Entries has returned. It checks data in one walk and copies it at once,
// which is several times faster than a Put for each. If data is damaged it returns ErrCorruption, and if the batch or
// an entry would be above the limits of Put, ErrTooLarge; the batch does not change then. A copy of a Batch is refused.
func (b *Batch) AppendEntries(data []byte) error { return b.writable().AppendEntries(data) }

// Grow makes room for n more bytes of entries, so that writes do not allocate until it is used up. A write needs
// at most 11 bytes in addition to its key and value. Room above MaxBatchSize is not made.
func (b *Batch) Grow(n int) { b.writable().Grow(n) }

// AppendBinary appends the batch's bytes to dst, in LevelDB's format (see Batch) with the sequence number 0. It
// implements encoding.BinaryAppender. For a batch that Apply refuses it returns the same error. A batch with entries of
// PutTTL is an error, since the format has no place for their times to live.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	if b == nil {
		return batch.AppendEmpty(dst), nil
	}
	return b.content.AppendBinary(dst)
}

// MarshalBinary returns a copy of the batch's bytes, as AppendBinary appends them. It
// implements encoding.BinaryMarshaler.
func (b *Batch) MarshalBinary() ([]byte, error) { return b.AppendBinary(nil) }

// UnmarshalBinary replaces the content of the batch with that of data, which AppendBinary or LevelDB made. It copies
// data and ignores the sequence number in it. If data is not a batch it returns ErrCorruption, and if the batch or an
// entry is above the limits ErrTooLarge; the batch does not change then. It implements encoding.BinaryUnmarshaler.
func (b *Batch) UnmarshalBinary(data []byte) error { return b.writable().UnmarshalBinary(data) }
