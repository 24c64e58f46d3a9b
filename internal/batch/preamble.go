package batch

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/wal"
)

// A log of ours begins with a preamble: an empty batch, whose sequence number is one above the
// last operation that was acknowledged before the log's first record. All of these were durable
// by then, in logs or tables, because a log is synced before the next one gets its first
// byte. So if recovery comes to a preamble and lacks any of them, a log is lost, and no power cut
// explains it. LevelDB and goleveldb do not sync there; a gap between their logs proves nothing.
//
// LevelDB and goleveldb take the preamble for a batch without operations. The MANIFEST
// could not say who wrote a log: LevelDB with reuse_logs appends to ours and then begins logs
// of its own, and it refuses unknown fields. Nor would any empty batch do as a preamble, since
// programs use one to sync what they wrote before. So the preamble is a record of two
// chunks, the sequence number and the count, which only our writer divides.
const PreambleSeqLen = 8

// BufferPreamble buffers the preamble of a log that comes after the operations up to last. It goes
// to the file with the first record.
func BufferPreamble(w *wal.Writer, last uint64) error {
	var b [HeaderLen]byte
	binary.LittleEndian.PutUint64(b[:], last+1)
	return w.BufferSplit(b[:PreambleSeqLen], b[PreambleSeqLen:])
}

// ReadPreamble returns the sequence number of the operation before the log, if record, which
// log.Next has just returned, is the preamble of one of our logs.
func ReadPreamble(log *wal.Reader, record []byte) (last uint64, ok bool) {
	if !log.Split() || log.Offset() != 0 || len(record) != HeaderLen {
		return 0, false
	}
	h, err := NewReader(record)
	if err != nil || h.Count != 0 || h.Seq == 0 {
		return 0, false
	}
	return h.Seq - 1, true
}
