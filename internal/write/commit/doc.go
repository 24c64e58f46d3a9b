// Package commit is the write path of a store: what makes a Put or a batch durable and visible, in one order.
//
// # The queue and its leader
//
// A writer that finds no leader leads. It commits a group of the writers that wait, its own write first: it makes room,
// writes one record to the log, syncs once if a writer asks for that, inserts into the memtable, and makes the group
// visible with one store of the last sequence number. Then the head of the queue leads. A single unsynced Put leads
// with one swap and is never in the queue. Only the leader uses the log, adds to the active memtable, replaces both,
// and assigns sequence numbers. Lead makes a function the leader, for all that must not run while a writer writes.
//
// # What may go wrong
//
//   - A failed write or sync of the log ends the log: nothing is appended after it, and nothing is synced again. Writes
//     end until Rotate replaces it, on a full disk until there is space; see failedlog.go.
//   - A panic of the user's code (comparer, file system, listener) in the leader ends the writes. It continues in the
//     leader's caller, and the other writers of the group get it as an error.
//   - A write that needs a memtable while flushes or compactions fall behind waits, as the leader. If the flush that would
//     make room fails, the write fails with that error. The flush is tried again.
//
// In each case the group's numbers stay used, and its writes are invisible until the next opening decides.
//
// # The end
//
// Refuse (the store closes) or Freeze (it becomes read-only) refuses writes. BeginEnd wakes all that waits, Shut waits
// for the leader and for the goroutines here, and CloseLog makes the writes durable.
//
// # Locks
//
// The leadership is not a mutex, but is held like one, also during file access and while the leader waits for a flush.
// Under it the leader acquires the Committer's mu, which guards the replacement of the read state: readers only load
// it. An edit of the MANIFEST calls Install with its own lock held. So mu comes after that lock, and a flush or a
// compaction never waits for the leader. Under mu only the locks of lookup.Snapshots, share and the compactions'
// scheduler are acquired. The queue's lock comes last.
//
// # Visibility
//
// The order is: log, memtable, recent keys for transactions, visible sequence number. A rotation installs the new
// memtable before anything in it has a visible number. Readers load the read state first and the number second; package
// lookup says why. Leader.Advance moves the number after the version of an edit that jumps ahead is installed.
package commit
