package report

import "time"

// ResourcesMetrics describe what the stores of a db.Resources use together. The numbers are not read
// at the same instant.
type ResourcesMetrics struct {
	// Stores is the number of open stores, MaxStores the largest.
	Stores, MaxStores int
	// Cache is about the bytes of the block caches, with filters and indexes of open tables.
	Cache SharedBudget
	// OpenFiles is about the number of open tables.
	OpenFiles SharedBudget
	// Memtables is about the bytes of memtables, with those that wait for their flush.
	Memtables SharedMemtables
	// Compactions is about the slots of compactions and filter upgrades.
	Compactions SharedSlots
}

// SharedBudget describes an amount that stores share.
type SharedBudget struct {
	// Limit is the largest amount, Used the present one.
	Limit, Used int64
	// Stores is the number of stores that have a part of it.
	Stores int
	// TakenFromOthers counts how often a store took something from another one: blocks, or open tables.
	TakenFromOthers uint64
}

// SharedMemtables describe the memory for memtables that stores share.
type SharedMemtables struct {
	// Limit is the largest amount in bytes, Used the present one. Used is above Limit only because of Overdrawn.
	Limit, Used int64
	// Overdrawn is the part of Used for single large writes, and for the logs of stores that are
	// being opened, that was not free when it was needed.
	Overdrawn int64
	// EarlyFlushes counts how often a store was asked to flush a memtable because another one needed the memory. Small
	// counts memtables that were made smaller than Memtables.Size for lack of memory.
	EarlyFlushes, Small uint64
}

// SharedSlots describe the slots of compactions that stores share.
type SharedSlots struct {
	// Limit is the number of slots, Used how many are in use.
	Limit, Used int
	// Waiting is how many stores wait for a slot now. Waits counts the waits that have ended, and
	// Waited is their total duration.
	Waiting int
	Waits   uint64
	Waited  time.Duration
}
