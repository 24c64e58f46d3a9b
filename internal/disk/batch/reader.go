package batch

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/util"
)

// Reader iterates over the entries of a batch's bytes.
type Reader struct {
	rest  []byte
	Seq   uint64 // of the next entry
	Count uint32 // the number of remaining entries
}

// NewReader returns a Reader of a log record's payload. It checks the header.
func NewReader(record []byte) (Reader, error) {
	if len(record) < HeaderLen {
		return Reader{}, base.Corruptf("batch", 0, "it is %d bytes long, want at least %d", len(record), HeaderLen)
	}
	r := Reader{
		Seq:   binary.LittleEndian.Uint64(record),
		Count: binary.LittleEndian.Uint32(record[8:]),
		rest:  record[HeaderLen:],
	}
	// Each entry has at least two bytes.
	if uint64(r.Count) > uint64(len(r.rest))/2 {
		return Reader{}, base.Corruptf("batch", 8, "the header counts %d entries in %d bytes", r.Count, len(r.rest))
	}
	if last := max(uint64(r.Count), 1) - 1; r.Seq > base.MaxSeq-last {
		return Reader{}, base.Corruptf("batch", 0, "the sequence number is %d for %d entries; want the last at most %d",
			r.Seq, r.Count, base.MaxSeq)
	}
	return r, nil
}

// ReaderOf returns a Reader of count entries without a header, which this package encoded.
func ReaderOf(entries []byte, count uint32) Reader { return Reader{rest: entries, Count: count} }

// Next returns the next entry, whose slices share the batch's bytes. ok is false at the end; err
// is then nil if the bytes are well-formed.
func (r *Reader) Next() (kind base.Kind, key, value []byte, seq uint64, ok bool, err error) {
	if r.Count == 0 {
		if len(r.rest) > 0 {
			err = base.Corruptf("batch", -1, "%d bytes follow the last entry", len(r.rest))
		}
		return 0, nil, nil, 0, false, err
	}
	if len(r.rest) == 0 {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "%d entries are missing at the end", r.Count)
	}
	kind = base.Kind(r.rest[0])
	if base.IsNewerKind(kind) || kind == base.KindRef {
		return 0, nil, nil, 0, false, base.Newerf("batch", -1, "an entry has the unknown kind %d", kind)
	}
	if kind > base.KindSet {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "entry of unknown kind %d", kind)
	}
	key, rest, ok := util.LengthPrefixed(r.rest[1:])
	if ok && kind == base.KindSet {
		value, rest, ok = util.LengthPrefixed(rest)
	}
	if !ok {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "a key or value exceeds the batch")
	}
	seq = r.Seq
	r.rest = rest
	r.Seq++
	r.Count--
	return kind, key, value, seq, true, nil
}

// Plausible reports whether a record found after damage is a batch of the same log, and not a
// batch of another log stored in a value. It must be well-formed. Its sequence number must be
// next or, if bytes of the log are missing, exceed next by no more than their number, because
// each operation has at least one byte. If next is 0, any sequence number is plausible.
func Plausible(record []byte, next, missing uint64) bool {
	h, err := NewReader(record)
	if err != nil || h.Seq < next || next > 0 && h.Seq-next > missing {
		return false
	}
	_, _, err = Check(record)
	return err == nil
}

// Check reads all entries of record. It returns the sequence number after the last entry, and the
// size of the entries in a memtable's arena.
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
