// Package db is SieveDB: an embedded, ordered key-value store in LevelDB's file format, with a filter in front of
// every sorted run.
//
// # Use
//
// Open a directory, read and write, close. Only one process at a time may have a directory open for writing.
//
//	store, err := db.Open(dir, nil) // creates the database if it does not exist
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
//	// By default, a write is durable when it returns.
//	if err := store.Put([]byte("spider"), []byte("8 legs"), nil); err != nil {
//		log.Fatal(err)
//	}
//	value, err := store.Get([]byte("spider"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	fmt.Printf("a spider has %s\n", value)
//
// Name the variable store: a variable named db hides the package. Nil options mean the defaults. A write with nil
// options is on stable storage when it returns; NoSync and Buffered promise less and are faster. A Batch applies
// several writes together, an Iterator walks keys in order, a Snapshot keeps showing one moment, a Transaction reads
// and writes as one step, a Namespace has keys of its own, PutTTL writes a value that expires, and a Loader writes
// sorted entries directly as tables. Explain and Metrics show what lookups read and what filters saved.
//
// # Errors
//
// Test errors with errors.Is. Get returns ErrNotFound for an absent key. Damaged files cause ErrCorruption; errors.As
// finds a *CorruptionError with the file and the offset. On a full disk, writes fail with ErrNoSpace and resume once
// there is space. Any other failed write of the log or the MANIFEST ends writes: they return ErrReadOnly with the
// cause until the database is opened again. Reads continue in both cases. The failed write may or may not be present
// afterwards. Every method of a closed DB or Snapshot that can fail returns ErrClosed. Keys and values never appear
// in errors.
//
// # Ownership of slices
//
// Keys and values are any bytes, including none. The caller may reuse slices as soon as the call returns. Slices
// returned by Get, GetTo and MultiGet belong to the caller. Those of Iterator.Key and Iterator.Value belong to the
// iterator and are valid until it moves or is closed.
//
// # Concurrency
//
// A DB, a Snapshot and a Namespace are safe for concurrent use by any number of goroutines. An Iterator, a Batch, a
// Transaction and a Loader are each used by one at a time. Readers and writers do not wait for each other; writers
// that sync share one sync. Close iterators and snapshots before the DB.
//
// # Other packages
//
//   - filter, filter/rangefilter: filters for Options.Filters; filter/standalone: filters without a store
//   - backup: incremental backups; module backup/blob: in buckets
//   - metrics: figures for Prometheus and expvar; module metrics/prometheus: a collector for client_golang
//   - console: a web page about a store
//   - report: the types of metrics and reports, of which db has eight by name; report/columns: tables of text
//   - sstable: tables for DB.Ingest; memtable, util: the other parts of the format
//   - vfs: file systems for Options.FS, one of them in memory; vfs/outfile: files that commands make
//   - module compat/goleveldb: goleveldb's packages on this store, through a replace line
//   - module cluster: a replicated server with Redis's protocol; command cmd/sievedb: looks into directories
//
// # How it works
//
// A Get loads one pointer, the read state: the memtables and the version. It takes no mutex, counts no reference and
// allocates nothing but its result. If a compaction closed a table under it, it starts over with the newer state. The
// read state is loaded before the visible sequence number: in the other order, a compaction could drop the version
// that the number needs between the two loads. docs/architecture.md describes the paths and the order of locks.
package db
