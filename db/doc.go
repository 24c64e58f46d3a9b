// Package db is SieveDB: an embedded, ordered key-value store in LevelDB's file
// format, with a filter in front of every sorted run.
//
// # Use
//
// Open a directory, Put, Get, iterate, Close. Keys and values are any bytes;
// slices passed in may be reused as soon as the call returns, and slices
// returned belong to the caller, except where a comment says otherwise. A DB is
// safe for concurrent use by any number of goroutines; an Iterator, a Batch and
// a buffer are each used by one at a time. Every method of a closed DB returns
// ErrClosed.
//
// # The write path
//
// Writers queue in queue.go. The one that finds the queue without a leader
// leads: it takes what has queued up, writes it as one record of the log, syncs
// once if any of them asked for it, inserts into the memtable, and publishes the
// last sequence number. A full memtable becomes immutable, with its own log, and
// a background goroutine writes it as a table of level 0 (flush.go). Compactions
// merge tables downward (compaction.go). Each change of the set of tables is one
// edit of the MANIFEST (package manifest). A load writes sorted entries as tables and
// adds them to what is there, as one write among the others (load.go).
//
// # The read path, and how readers pin what they read
//
// A Get loads one pointer, the read state: the memtables and the version, all
// immutable but for the active memtable, whose readers need no lock. It takes no
// mutex, counts no reference and allocates nothing but its result:
//
//   - Memory is kept alive by the garbage collector: memtable arenas, filters,
//     indexes and cached blocks are never reused, only dropped.
//   - Descriptors are counted where a read goes to the disk, and only there: a
//     table that compaction made obsolete, or that the open-table cache gave up,
//     closes its file when the reads under way have ended. A Get that comes later
//     with an old read state is told so (sstable.ErrReaderClosed), loads the
//     current one, and starts over; the newer state holds the same data.
//   - Iterators and snapshots live longer, so they do count: an iterator holds
//     its version, and no file that it names is removed before Close.
//
// The read state is loaded before the visible sequence number. The other order
// would lose keys: a compaction may drop, between the two loads, the version that
// the older sequence number asks for.
//
// # Locks
//
// These are this package's, taken in this order; none but the first three is held
// during file access. Those of other rooms are leaves: nothing of ours is called
// under them. docs/architecture.md lists all.
//
//	Loader.mu                  one load, against DB.Close
//	(the commit leadership)    one leader at a time; commitQueue.mu hands it on
//	Set.mu (package manifest)  one edit of the MANIFEST at a time, its writing included
//	DB.mu                      the memtable list, background work, errors
//	snapshotList.mu            the sequence numbers of open snapshots
//	openedList.mu              the open iterators and snapshots, for Close to name
//	obsoleteFiles.mu           the files waiting for removal
package db
