// Package linearizability lets clients write and read one database concurrently and checks with porcupine whether their
// results have an order: one in which each operation takes effect at one moment between its call and its return. It is
// a separate module, so that users of the library do not download porcupine.
//
//	clients ──► store, memtables of 4 KiB, so that flushes and
//	   │        compactions run all the time
//	   ▼
//	operations with the times of call and return ──► model ──► an order, or none
//
// Keys come in groups. Writes to a group are one batch, and reads of it use one snapshot or iterator. So one model
// serves both questions: groups of one key are registers, groups of four show whether batches and snapshots are whole.
// Groups are independent of each other, which keeps the search for an order short.
//
// Times are counts, not clocks: each call and each return takes the next number.
//
// # Power cuts
//
// In some histories the power is cut while the clients work, and they continue with the remaining data. Of the
// operations in progress at that moment, a write may have had its effect or not, so its return is placed at the end of
// time, and a read proves nothing. All writes that returned must be present: those histories have only synced writes.
//
// # Leases
//
// In some histories half of the values expire when the clock moves, which is an operation of its own: a tick. A
// transaction that read such a value and commits after the tick has no place in the order, so it must conflict.
//
// # Flags of the tests
//
//	-lin.histories=50   histories of each kind, and a tenth as many with a power cut
//	-lin.clients=8      clients in each
//	-lin.ops=1000       operations of each client
//	-lin.seed=0         seed of the first history; the others count up; 0: choose
package linearizability
