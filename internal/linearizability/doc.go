// Package linearizability lets clients write and read one database at once and
// asks porcupine whether what they saw has an order: one in which each operation
// takes effect at one moment between its call and its return. It is a module of
// its own, so that nobody who uses the library gets porcupine with it.
//
//	clients ──► store, memtables of 4 KiB, so that flushes and
//	   │        compactions run all the time
//	   ▼
//	operations with the times of call and return ──► model ──► an order, or none
//
// Keys come in groups. What is written to a group, it gets in one batch, and what
// is read of it together, from one snapshot or iterator; so one model serves both
// questions: groups of one key are registers, groups of four tell whether batches
// and snapshots are whole. Groups are independent of each other, which is what
// keeps the search for an order short.
//
// Times are counts, not clocks: each call and each return takes the next number.
//
// # Power cuts
//
// In some histories the power is cut while the clients are at it, and they go on
// with what was left. Of the operations that were under way then, a write may
// have had its effect or may not, so its return is put at the end of time, and a
// read tells nothing. All that had returned must be there: those histories hold
// synced writes only.
//
// # Flags of the tests
//
//	-lin.histories=50   histories of each kind, and a tenth as many with a power cut
//	-lin.clients=8      clients in each
//	-lin.ops=1000       operations of each client
//	-lin.seed=0         seed of the first history; the others count up; 0: choose
package linearizability
