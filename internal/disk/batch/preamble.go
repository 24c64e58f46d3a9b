package batch

import (
	"encoding/binary"

	"github.com/sievedb/sievedb/internal/disk/wal"
)

// Each of our logs begins with a preamble: an empty batch whose sequence number is one above the last operation that
// was acknowledged before the log's first record. All those operations were durable by then, in logs or tables, because
// a log is synced before the next one gets its first byte. So if recovery reads a preamble and some of the operations
// are missing, a log is lost, and a power cut cannot be the reason. LevelDB and goleveldb do not sync at that point; a
// gap between their logs proves nothing.
//
// LevelDB and goleveldb read the preamble as a batch without operations. The MANIFEST could not say who wrote a log:
// LevelDB with reuse_logs appends to our logs and then begins its own, and it refuses unknown fields. An ordinary empty
// batch is no preamble either, because programs write empty batches to sync earlier writes. The preamble is therefore a
// record in two chunks, the sequence number and the count; only our writer divides records there.

// PreambleSeqLen is the length in bytes of the preamble's first chunk.
const PreambleSeqLen = 8

// BufferPreamble buffers the preamble of a log that follows the operations up to last. It is
// written to the file with the first record.
func BufferPreamble(w *wal.Writer, last uint64) error {
	var b [HeaderLen]byte
	binary.LittleEndian.PutUint64(b[:], last+1)
	return w.BufferSplit(b[:PreambleSeqLen], b[PreambleSeqLen:])
}

// ReadPreamble returns the sequence number of the last operation before the log. ok is false if
// record, which log.Next has just returned, is not the preamble of one of our logs.
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
