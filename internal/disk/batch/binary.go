package batch

import (
	"encoding/binary"
	"math"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/memtable"
)

// AppendBinary appends the batch's bytes to dst, with the sequence number 0; db.Batch documents it.
func (b *Batch) AppendBinary(dst []byte) ([]byte, error) {
	if !b.Begin() {
		return dst, b.Misuse()
	}
	defer b.End()
	if err := b.Unencodable(); err != nil {
		return dst, err
	}
	if b.entries == 0 {
		return AppendEmpty(dst), nil
	}
	from := len(dst)
	dst = append(dst, b.data...)
	binary.LittleEndian.PutUint64(dst[from:], 0)
	binary.LittleEndian.PutUint32(dst[from+8:], b.entries)
	return dst, nil
}

// Unencodable returns why the batch has no binary form, or nil.
func (b *Batch) Unencodable() error {
	switch {
	case b.refused != nil:
		return b.refused
	case b.memSize > MaxBatchSize:
		return b.CheckMemory()
	case len(b.ranges) > 0:
		return errors.New("sievedb: a Batch with DeleteRange has no binary form: LevelDB's batches have no entry for a range; " +
			"apply it, or store its entries by your own means (Batch.All)")
	case len(b.ttls) > 0:
		return errors.New("sievedb: the batch has entries of PutTTL, and LevelDB's format has no place for their times to live; " +
			"encode the entries of Batch.All")
	}
	return nil
}

// AppendEmpty appends the bytes of a batch without entries.
func AppendEmpty(dst []byte) []byte { return append(dst, empty[:]...) }

// UnmarshalBinary replaces the content of the batch by that of data, which it copies; db.Batch
// documents it. The batch does not change after an error.
func (b *Batch) UnmarshalBinary(data []byte) error {
	if !b.Begin() {
		return b.Misuse()
	}
	defer b.End()
	if len(data) < HeaderLen {
		return base.Corruptf("batch", 0, "it is %d bytes long, want at least %d", len(data), HeaderLen)
	}
	count := binary.LittleEndian.Uint32(data[8:])
	if err := checkBatch(uint64(len(data)), uint64(count)); err != nil {
		return err
	}
	if err := checkEntries(ReaderOf(data[HeaderLen:], count)); err != nil {
		return err
	}
	copied := append([]byte(nil), data...)
	SetSeq(copied, 0)
	_, memSize, err := Check(copied)
	if err == nil {
		err = checkMemory(memSize, count)
	}
	if err != nil {
		return err
	}
	if count == 0 {
		copied = nil
	}
	b.data, b.entries, b.memSize, b.refused, b.ranges, b.ttls = copied, count, memSize, nil, nil, nil
	return nil
}

// AppendEntries adds entries in the form of Entries, which it checks in one walk and copies at once;
// db.Batch documents it. The batch does not change after an error.
func (b *Batch) AppendEntries(entries []byte) error {
	if !b.Begin() {
		return b.Misuse()
	}
	defer b.End()
	r, memSize := ReaderOf(entries, math.MaxUint32), uint64(0)
	for len(r.rest) > 0 {
		_, key, value, _, _, err := r.Next()
		if err == nil {
			err = CheckEntry(key, value)
		}
		if err != nil {
			return unchecked(err)
		}
		memSize += uint64(memtable.EntrySize(len(key), len(value)))
	}
	count := uint64(b.entries) + r.Seq // which Next counts up from 0
	if err := checkBatch(uint64(len(b.data)+len(entries)), count); err != nil || r.Seq == 0 {
		return err
	}
	if err := checkMemory(b.memSize+memSize, uint32(count)); err != nil {
		return err
	}
	b.data = append(b.started(), entries...)
	b.entries = uint32(count)
	b.memSize += memSize
	return nil
}

// unchecked returns the error about bytes that no checksum shows to be what someone wrote: they are damaged, not newer.
func unchecked(err error) error {
	var newer *base.NewerError
	if errors.As(err, &newer) {
		return base.Corruptf(newer.Part, newer.Offset, "%s", newer.Found)
	}
	return err
}

// checkEntries compares all entries with the limits.
func checkEntries(r Reader) error {
	for {
		_, key, value, _, ok, err := r.Next()
		if !ok || err != nil {
			return unchecked(err)
		}
		if err := CheckEntry(key, value); err != nil {
			return err
		}
	}
}
