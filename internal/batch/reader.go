package batch

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/util"
)

// Reader walks the entries of a batch's bytes.
type Reader struct {
	rest  []byte
	Seq   uint64 // of the next entry
	Count uint32 // entries not read yet
}

// NewReader checks the header of a log record's payload.
func NewReader(record []byte) (Reader, error) {
	if len(record) < HeaderLen {
		return Reader{}, base.Corruptf("batch", 0, "it is %d bytes long, want at least %d", len(record), HeaderLen)
	}
	r := Reader{
		Seq:   binary.LittleEndian.Uint64(record),
		Count: binary.LittleEndian.Uint32(record[8:]),
		rest:  record[HeaderLen:],
	}
	// Each entry takes two bytes or more.
	if uint64(r.Count) > uint64(len(r.rest))/2 {
		return Reader{}, base.Corruptf("batch", 8, "it counts %d entries in %d bytes", r.Count, len(r.rest))
	}
	if last := max(uint64(r.Count), 1) - 1; r.Seq > base.MaxSeq-last {
		return Reader{}, base.Corruptf("batch", 0, "its sequence is %d and it counts %d entries, want the last at most at %d", r.Seq, r.Count, base.MaxSeq)
	}
	return r, nil
}

// ReaderOf walks entries that were encoded here, without a header.
func ReaderOf(entries []byte, count uint32) Reader { return Reader{rest: entries, Count: count} }

// Next returns the next entry, whose slices are within the batch's bytes. ok is
// false at the end; then err tells whether the bytes were as they should.
func (r *Reader) Next() (kind base.Kind, key, value []byte, seq uint64, ok bool, err error) {
	if r.Count == 0 {
		if len(r.rest) > 0 {
			err = base.Corruptf("batch", -1, "%d bytes follow its last entry", len(r.rest))
		}
		return 0, nil, nil, 0, false, err
	}
	if len(r.rest) == 0 {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "it ends with %d entries missing", r.Count)
	}
	kind = base.Kind(r.rest[0])
	if kind > base.KindSet {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "entry of unknown kind %d", kind)
	}
	key, rest, ok := util.LengthPrefixed(r.rest[1:])
	if ok && kind == base.KindSet {
		value, rest, ok = util.LengthPrefixed(rest)
	}
	if !ok {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "a key or value runs past its end")
	}
	seq = r.Seq
	r.rest = rest
	r.Seq++
	r.Count--
	return kind, key, value, seq, true, nil
}

// Plausible reports whether a record that is found behind damage is a batch of the same log, and
// not of another one that stands in a value: whole, and numbered next or, where something
// is known of the log, above that by no more than the bytes that are missing, for each
// operation takes one at least. next 0: nothing is known.
func Plausible(record []byte, next, missing uint64) bool {
	h, err := NewReader(record)
	if err != nil || h.Seq < next || next > 0 && h.Seq-next > missing {
		return false
	}
	_, _, err = Check(record)
	return err == nil
}

// Check walks all of record and returns the sequence number behind its
// last entry, and how much of a memtable's arena it needs.
func Check(record []byte) (nextSeq, memSize uint64, err error) {
	r, err := NewReader(record)
	if err != nil {
		return 0, 0, err
	}
	for {
		_, key, value, _, ok, err := r.Next()
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			return r.Seq, memSize, nil
		}
		memSize += uint64(memtable.EntrySize(len(key), len(value)))
	}
}
