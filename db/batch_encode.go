package db

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

const batchHeaderLen = 12

// appendEntry appends an entry as it stands in a batch.
func appendEntry(dst []byte, kind base.Kind, key, value []byte) []byte {
	dst = util.AppendLengthPrefixed(append(dst, byte(kind)), key)
	if kind == base.KindSet {
		dst = util.AppendLengthPrefixed(dst, value)
	}
	return dst
}

// appendEntryRecord appends a batch of one entry, as it stands in the log.
func appendEntryRecord(dst []byte, seq uint64, kind base.Kind, key, value []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = binary.LittleEndian.AppendUint32(dst, 1)
	return appendEntry(dst, kind, key, value)
}

// entryRecordParts is what appendEntryRecord appends, without copies of key and value.
func entryRecordParts(seq uint64, kind base.Kind, key, value []byte) [][]byte {
	head := binary.LittleEndian.AppendUint64(nil, seq)
	head = binary.LittleEndian.AppendUint32(head, 1)
	head = util.AppendUvarint32(append(head, byte(kind)), uint32(len(key)))
	if kind == base.KindDelete {
		return [][]byte{head, key}
	}
	return [][]byte{head, key, util.AppendUvarint32(nil, uint32(len(value))), value}
}

// setRecordSeq changes the sequence number of the first entry of a batch's bytes.
func setRecordSeq(record []byte, first uint64) { binary.LittleEndian.PutUint64(record, first) }
