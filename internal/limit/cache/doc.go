// Package cache keeps values that are expensive to make, within a budget, and finds them without a hash table: the
// owner of a value holds a Slot for it, one word, and a hit is a load of that word. The store has two caches: decoded
// blocks, with a slot for each block of an open table and sizes in bytes, and open tables, with a slot for each file
// and size 1 each. This package knows only slots, values and sizes, not files or blocks.
//
//	owner: a table's slots         one shard of the cache: two queues, a lock
//	┌──────┐
//	│ slot ┼──► entry ◄─────────┐   probation  head ► e ► e ► e tail ──► ghost
//	├──────┤    ┌───────────┐   │
//	│ slot │nil │ state 0..127   ├─  main       head ► e ► e ► … ► e tail
//	├──────┤    │ value     │   │                ▲                  │
//	│ slot ┼─┐  │ size, slot│   │                └─ while state > 0 ┘
//	├──────┤ │  │ prev, next├───┘
//	│ slot ┼┐│  └───────────┘
//	└──────┘│└─► ghost mark: was recently evicted from probation
//	        └──► closed mark: Drop was called, nothing is kept here any more
//
// # Promises
//
//   - A hit takes no lock and writes at most the entry's own state, a number from 0 to
//     127 that each hit increments until it is 127. Readers of different entries share
//     no cache line, and readers of a hot entry only read it.
//   - The budget holds at every instant: room is reserved before a value is inserted.
//     Charge, by which the owner uses a part of the budget, evicts as much before it
//     returns.
//   - Goroutines that miss one slot at the same time load it once.
//   - onEvict runs exactly once for every value that a load made.
//   - A miss allocates the entry, in addition to the allocations of its load.
//
// All methods of Cache and Slot may be called from any goroutine. See shard.go for the rules of
// admission and eviction, and NewWithForms for values that have a small and a large form.
//
// # Shards and the budget
//
// Inserts and evictions lock the slot's shard, which is chosen by the slot's address. There are up to four shards per
// processor, but each has a share of at least 2^20 units. So caches of less than 2^21 units, such as any cache whose
// unit is one value, have one shard and one order of eviction. The share only determines where room is made first. The
// budget is one number for all shards, so a value larger than a share still fits, at the expense of the other shards. A
// value larger than the whole budget is returned and not kept.
//
// Lock order: no goroutine holds the locks of two shards, except in Metrics, which locks
// all in the order of their index. Neither load nor onEvict runs under a lock.
package cache
