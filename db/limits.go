package db

import "github.com/sievedb/sievedb/internal/disk/batch"

// The limits of writes, in bytes. A write above them is ErrTooLarge and changes nothing. They apply to Put, Delete,
// Batch and Loader. Larger entries that LevelDB or goleveldb wrote are still read, compacted and recovered if their
// keys have at most 64 MiB. Later versions may raise the limits, never lower them.
const (
	// MaxKeySize bounds a key. The MANIFEST contains the first and the last key of each table
	// and must stay below Options.Limits.ManifestRead: by default that is 128 tables whose
	// bounds are this long. Long keys also stay in memory, in the index of each open table.
	// (Badger accepts 64 KB, RocksDB 8 MB; LevelDB and Pebble have no limit of their own.)
	MaxKeySize = 1 << 20
	// MaxValueSize bounds a value. It leaves room for the copies in memory, two while a value is written, in the
	// address space of a 32-bit process, and for LevelDB's 32-bit lengths.
	MaxValueSize = 512 << 20
	// MaxBatchSize bounds a batch as Batch.Size counts it. A batch becomes one log record, and recovery does not
	// believe that a record is longer. The memory of its entries in a memtable has the same bound.
	MaxBatchSize = 1 << 30
)

// The limits are those that batches check.
var (
	_ [MaxKeySize]struct{}   = [batch.MaxKeySize]struct{}{}
	_ [MaxValueSize]struct{} = [batch.MaxValueSize]struct{}{}
	_ [MaxBatchSize]struct{} = [batch.MaxBatchSize]struct{}{}
)
