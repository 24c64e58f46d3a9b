// Package changes yields the changes of a database in the order in which they were made, from its logs.
//
// # Segments
//
// A log becomes superfluous when its memtable was flushed. An Archive then moves it to the subdirectory "changes" of
// the database instead of removing it. No other program looks there: a repair that found an old log among the others
// would bring deleted keys back. Its name says which sequence numbers it covers, so the list of names is the index:
//
//	11-20.log       the records of the numbers 11 to 20
//	21-28-30.log    the last record ends at 28; 29 and 30 were used by writes that failed
//	21-28-30.log.pending  says so before the log has that name (RecordFailed)
//	31-300.load     a load, which the log does not have; .ingest and .delete are the other kinds
//
// Each segment begins where the one before ends. The chain ends with the logs that are still
// needed, in the directory of the database. Their names do not have the last number of a record, so a Reader
// looks again before it reads beyond what it knew to be visible. A position is a sequence number: what comes
// after it can be read if it is not before the first segment.
//
// # Loads, ingests and deleted ranges
//
// These add or remove tables in one edit of the MANIFEST. Before that edit, the Archive writes a file that describes
// them (event.go), and links the added tables, so that their entries can be read later. Until the edit is in force the
// file's name ends in ".pending". A pending file that a crash left counts if the database has reached its sequence
// number and still has the MANIFEST that the file names, unless something else has its numbers. If it has another
// MANIFEST, another program may have used the numbers, and the history restarts.
//
// # When the history restarts
//
// Open compares the chain with what it recovered. Where numbers are missing, because another program or an opening
// without the feed wrote to the database, or because damage was skipped, everything before is removed. A reader with an
// older position gets a *GoneError. There is never a gap that the reader does not learn about.
//
// # Readers
//
// A Reader needs no lock: it reads files that only grow. For the store that writes them, the Archive
// has the index in memory. A follower, or a store that was opened read-only, lists the directory
// instead (Directory). The caller limits how far a Reader goes: to what is durable, or to what is visible.
package changes
