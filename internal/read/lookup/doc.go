// Package lookup finds the values of keys in a read state: the memtables and a version, from the
// newest to the oldest. Finder has the functions for one key and for many, and Explain, which
// records each step. All of them read the same runs in the same order.
//
// # Which entries a lookup sees
//
// A lookup loads the read state first and the visible sequence number second. In the other order, a compaction could
// drop the version that the number needs between the two loads. A lookup for a snapshot has its own number. A lookup in
// a pinned state, whose version is referenced by the caller, searches that state instead of the current one (see At).
// Snapshots lists the numbers of the open snapshots for compactions.
//
// # Tables that are closed meanwhile
//
// A lookup takes no mutex and counts no reference. If a table is closed or removed while it is about to read it, it
// starts over with the newer state. FindAll, which reads many tables, takes a reference for its second attempt.
//
// # Ownership
//
// The functions are safe for concurrent use. Values of FindAll belong to the caller; those of Find
// are valid until the caller releases the sstable.Lookup. It is on the caller's stack, and a lookup
// allocates nothing, so nothing here may make it escape.
package lookup
