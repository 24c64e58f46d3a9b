package db

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/util"
)

// batchReader walks the entries of a batch's bytes.
type batchReader struct {
	rest  []byte
	seq   uint64 // of the next entry
	count uint32 // entries not read yet
}

// readBatchHeader checks the header of a log record's payload.
func readBatchHeader(record []byte) (batchReader, error) {
	if len(record) < batchHeaderLen {
		return batchReader{}, base.Corruptf("batch", 0, "it is %d bytes long, want at least %d", len(record), batchHeaderLen)
	}
	r := batchReader{
		seq:   binary.LittleEndian.Uint64(record),
		count: binary.LittleEndian.Uint32(record[8:]),
		rest:  record[batchHeaderLen:],
	}
	// Each entry takes two bytes or more.
	if uint64(r.count) > uint64(len(r.rest))/2 {
		return batchReader{}, base.Corruptf("batch", 8, "it counts %d entries in %d bytes", r.count, len(r.rest))
	}
	if last := max(uint64(r.count), 1) - 1; r.seq > base.MaxSeq-last {
		return batchReader{}, base.Corruptf("batch", 0, "its sequence is %d and it counts %d entries, want the last at most at %d", r.seq, r.count, base.MaxSeq)
	}
	return r, nil
}

// next returns the next entry, whose slices are within the batch's bytes. ok is
// false at the end; then err tells whether the bytes were as they should.
func (r *batchReader) next() (kind base.Kind, key, value []byte, seq uint64, ok bool, err error) {
	if r.count == 0 {
		if len(r.rest) > 0 {
			err = base.Corruptf("batch", -1, "%d bytes follow its last entry", len(r.rest))
		}
		return 0, nil, nil, 0, false, err
	}
	if len(r.rest) == 0 {
		return 0, nil, nil, 0, false, base.Corruptf("batch", -1, "it ends with %d entries missing", r.count)
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
	seq = r.seq
	r.rest = rest
	r.seq++
	r.count--
	return kind, key, value, seq, true, nil
}

// plausibleBatch reports whether a record that is found behind damage is a batch of the same log, and
// not of another one that stands in a value: whole, and numbered next or, where something
// is known of the log, above that by no more than the bytes that are missing, for each
// operation takes one at least. next 0: nothing is known.
func plausibleBatch(record []byte, next, missing uint64) bool {
	h, err := readBatchHeader(record)
	if err != nil || h.seq < next || next > 0 && h.seq-next > missing {
		return false
	}
	_, _, err = checkBatch(record)
	return err == nil
}

// checkBatch walks all of record and returns the sequence number behind its
// last entry, and how much of a memtable's arena it needs.
func checkBatch(record []byte) (nextSeq, memSize uint64, err error) {
	r, err := readBatchHeader(record)
	if err != nil {
		return 0, 0, err
	}
	for {
		_, key, value, _, ok, err := r.next()
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			return r.seq, memSize, nil
		}
		memSize += uint64(memtable.EntrySize(len(key), len(value)))
	}
}
