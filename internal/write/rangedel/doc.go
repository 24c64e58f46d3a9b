// Package rangedel deletes ranges of keys. LevelDB's files have no entry for a range, so a range is
// deleted by removing tables and by writing tombstones, and all of that in one edit of the MANIFEST.
// Every reader of the files, also an old LevelDB after a crash, sees the range whole or deleted.
//
// # Steps
//
//  1. The memtables are flushed. From here on new snapshots pin the state that they read, so that
//     they do not need the tables that are to be removed.
//  2. Tables that lie in the range with all of their keys are reserved, unless a snapshot from before
//     needs them or a compaction merges them.
//  3. All other tables that may have keys in the range are read, and a tombstone is written for each
//     key that has a value there, a deleted one included: the table with the deletion may be removed
//     later. If no snapshot is open these are the few tables at the ends of the range.
//  4. As the leader of the writers (Host.Lead) the job flushes the few writes since then, deletes in
//     the same way what they brought, and installs the edit.
//
// A table that a snapshot needs stays, covered by tombstones. Once the last such snapshot is closed,
// Sweep removes it.
//
// # Few keys
//
// If no table lies in the range as a whole, and the range has few keys, an edit costs more than a
// batch of tombstones. DeletePoints writes that. The keys that others write meanwhile are added by
// the leader, as the reads of a transaction are checked by it; see package txn.
//
// # Sequence numbers
//
// The tombstones have a number that was reserved above the assigned ones, as loads do. The few
// tombstones of step 4 have the next one, and the other writes of a batch the one after that: a key
// may be among the first and the second, and a batch may write a key of a range that it deletes.
package rangedel
