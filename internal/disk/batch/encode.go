package batch

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// HeaderLen is the length in bytes of a batch's header.
const HeaderLen = 12

// AppendEntry appends an entry of a batch.
func AppendEntry(dst []byte, kind base.Kind, key, value []byte) []byte {
	dst = util.AppendLengthPrefixed(append(dst, byte(kind)), key)
	if kind == base.KindSet {
		dst = util.AppendLengthPrefixed(dst, value)
	}
	return dst
}

// AppendRecord appends a batch of one entry, as in the log.
func AppendRecord(dst []byte, seq uint64, kind base.Kind, key, value []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = binary.LittleEndian.AppendUint32(dst, 1)
	return AppendEntry(dst, kind, key, value)
}

// RecordParts returns the bytes of AppendRecord in parts, without copying key and value.
func RecordParts(seq uint64, kind base.Kind, key, value []byte) [][]byte {
	head := binary.LittleEndian.AppendUint64(nil, seq)
	head = binary.LittleEndian.AppendUint32(head, 1)
	head = util.AppendUvarint32(append(head, byte(kind)), uint32(len(key)))
	if kind == base.KindDelete {
		return [][]byte{head, key}
	}
	return [][]byte{head, key, util.AppendUvarint32(nil, uint32(len(value))), value}
}

// SetSeq changes the sequence number of a batch's first entry.
func SetSeq(record []byte, first uint64) { binary.LittleEndian.PutUint64(record, first) }
