// Package txn has the parts of an optimistic transaction: what it has written (Writes), what it
// has read (Reads, Walk), what others commit while it ends (Recent), and its end (Committer, Turns).
//
// # Serializability
//
// A transaction reads at a sequence number, its start. At the end its writes are one batch, and
// they are committed only if nothing that it read has changed since the start. So all its reads
// are as if they had happened at the moment of its commit: the transactions that write are
// serializable in the order of their commits. A transaction that only reads is serializable at
// its start. This is validation backward, at the end of the read phase (Kung and Robinson, On
// Optimistic Methods for Concurrency Control, TODS 6(2), 1981). Reads records keys and ranges. A
// range begins where an iterator began and ends where it stopped, so a key that is added within
// it is a change too (a phantom).
//
// # Two steps
//
// A commit waits for one goroutine at a time, the leader of the commit queue. To read tables there
// would keep other writers waiting. So a transaction is examined in two steps. First, outside of
// the queue, every run with entries above the start is searched for what was read: Conflict. This
// covers everything up to a sequence number, the horizon. Then the leader compares the reads with
// the keys that were committed since, which Recent holds. There are few, so this is a matter of
// some comparisons each.
//
// Recent costs writers one atomic load while no transaction is between these steps.
package txn
