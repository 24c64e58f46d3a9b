package report

import "time"

// Ingest describes tables that were ingested.
type Ingest struct {
	// Seq is the sequence number of the store from which the tables are visible.
	Seq uint64
	// Linked tables are new names of the files that were given, and Copied ones are copies of them.
	// The entries of Rewritten ones are in new tables.
	Linked, Copied, Rewritten int
	// Entries counts the entries of the tables that were given, with deletions and old values.
	Entries uint64
	// BytesLinked, BytesCopied and BytesRewritten are the sizes of the tables that the store got.
	BytesLinked, BytesCopied, BytesRewritten uint64
	// Tables counts the tables that the store got, by level.
	Tables [NumLevels]int
	// Duration is the time that the call took.
	Duration time.Duration
	// Err is only set for EventListener.IngestEnd; then all but Duration is 0.
	Err error
}
