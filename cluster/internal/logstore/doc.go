// Package logstore stores the raft logs and the stable stores of all groups of a node in one SieveDB, so that the
// groups share its group commit: entries that several groups store at the same time cost one fsync.
//
// A Group implements raft.LogStore, raft.StableStore and raft.MonotonicLogStore. What StoreLogs, Set and
// SetUint64 acknowledged survives a power cut. The entries of a group have consecutive indexes:
// StoreLogs refuses a gap, and DeleteRange deletes from the front or from the back only.
//
// The first failed write ends all writes of the store, also if only the disk was full: raft keeps the
// index of its last entry in memory, and does not correct it if a write fails after a truncation. The
// node opens the store and its groups again.
//
// All methods may be called from any goroutine. GetLog does not wait for an fsync. Close waits for
// nothing: the groups' rafts must have ended.
//
// # Bytes
//
// Numbers are big-endian. The keys are
//
//	group (4) | 'l' | index (8)   an entry of the log
//	group (4) | 's' | name        a value of the stable store; SetUint64 stores 8 bytes
//
// and an entry is
//
//	version (1) = 1 | type (1) | flags (1) | term (8) | seconds (8), nanoseconds (4) if flag 1 |
//	length (4) and extensions if flag 2 | data if flag 4
//
// The time is that at which the leader appended the entry. A flag that is not set is a zero time, and
// nil instead of an empty slice.
//
// # Locks
//
// Group.storing, then Store.mu, then Group.mu.
package logstore
