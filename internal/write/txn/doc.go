// Package txn has the parts of an optimistic transaction: what it has written (Writes), what it has read (Reads), what
// others commit while it ends (Recent, Untraced), and its end (Committer, Turns).
//
// # Serializability
//
// A transaction reads at a sequence number, its start. At the end its writes are one batch, and they are committed only
// if nothing that it read has changed since the start. So all its reads are as if they had happened at the moment of
// its commit: the transactions that write are serializable in the order of their commits. A transaction that only reads
// is serializable at its start. This is validation backward, at the end of the read phase (Kung and Robinson, On
// Optimistic Methods for Concurrency Control, TODS 6(2), 1981). Reads records keys and ranges. A range begins where an
// iterator began and ends where it stopped, so a key that is added within it is a change too (a phantom).
//
// # Two steps
//
// A commit waits for one goroutine at a time, the leader of the commit queue. To read tables there would keep other
// writers waiting. So a transaction is examined in two steps. First, outside of the queue, every run with entries above
// the start is searched for what was read: Conflict. This covers everything up to a sequence number, the horizon. Then
// the leader compares the reads with the keys that were committed since, which Recent holds. There are few, so this is
// a matter of some comparisons each.
//
// Recent costs writers one atomic load while no transaction is between these steps.
//
// # What is not visible yet does not count
//
// The first step counts only changes above the start and up to the horizon, which is visible. A change above the
// horizon may be in the runs already: a batch whose last entries are being inserted. If it counted, the transaction
// would begin again at the same start, meet the same change, and so on until it gives up, all within microseconds.
// Instead it goes on to the queue, where it waits until the leader has made that change visible or has failed. Then the
// leader finds it, in Recent or because Recent does not know it (Recent.Forget), and in the second case the first step
// is repeated. So each conflict is with a change that the next attempt sees: 100 conflicts are 100 commits of others.
//
// # Changes without sequence numbers
//
// A deletion of a range removes tables without tombstones, and an ingest adds tables with the sequence numbers that
// they have. Neither does so while a snapshot is open that reads the current state, so only transactions that pin their
// state can meet such a change; see lookup.Snapshots. Untraced has these changes, each with the number X at which it
// became visible, and the ranges of the tables that are gone and of those that came. A transaction conflicts if X is
// above its start and up to the horizon, and something that it read has an entry of the pinned state in a range that is
// gone, or an entry of the present state in a range that came.
//
// No change is missed. The leader alone makes them: it notes the change, makes X visible, and installs the version, in
// this order and with no other commit in between, after the MANIFEST is synced. Take a transaction that is committed
// after the change, with a start below X. The horizon of its last examination is either at least X: then the change was
// noted before, and it counts. Or it is below X: then Recent, which has forgotten all up to X, does not cover the
// horizon when the leader asks, unless the leader itself examines, which it does while nothing is installed, with a
// horizon of at least X. A change that failed is never noted.
//
// What counts is enough. A key that the transaction read has, just before the change, the entry that it saw, or a newer
// one above the start. The second is found by its number, or was removed like the first, by a change of its own. If the
// tables that are gone had the first, the pinned state has it too, since its number is not above the start. If the
// pinned state has no entry, the transaction saw no value, and after the removal there is none. A table comes with its
// numbers only where no table of the store lies. So an entry that it brings is the key's only one, and is found unless
// a later change has removed it: a newer write is found by its number, a removed table is a change of its own, and a
// compaction that drops it leaves the key without a value, as the transaction saw it.
package txn
