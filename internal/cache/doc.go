// Package cache keeps values that are dear to make, within a budget, and finds
// them without a hash table: the owner of a value holds a Slot for it, one word,
// and a hit is a load of that word. The store has two caches: decoded blocks,
// with a slot for each block of an open table and sizes in bytes, and open
// tables, with a slot for each file and size 1 each. This package knows slots,
// values and sizes, and neither files nor blocks.
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
//	└──────┘│└─► ghost mark: was evicted from probation not long ago
//	        └──► closed mark: Drop was called, nothing is kept here any more
//
// # Promises
//
//   - A hit takes no lock and writes nothing but, at most, the entry's own state:
//     one of the numbers 0 to 127, raised by each hit until it is 127. Readers of
//     different entries share no line, readers of a hot entry only read it.
//   - The budget holds at every instant: room is reserved before a value goes in. What
//     the owner charges to it (Charge) evicts as much before the call returns.
//   - Goroutines that miss one slot at once load it once.
//   - onEvict runs exactly once for every value that a load made.
//   - A miss allocates the entry, besides what its load does.
//
// All methods of Cache and Slot may be called from any goroutine.
//
// # What stays and what goes
//
// A value that comes into a full cache starts in probation, a FIFO of a sixteenth
// of the budget, and leaves it unconditionally; its slot then remembers that it
// was here (a ghost). Only a value that is asked for again while its slot
// remembers enters the main queue, which is CLOCK over the state. Slots remember
// about as many evictions as the cache holds entries. While the main queue has
// under seven eighths of the budget, values go to it at once, so that a cache
// that is being filled does not ask anything twice.
//
// To take a value in costs a copy and an eviction, which is often for nothing. An owner
// may ask (Pass) before it copies, and keeps the value to itself, the slot remembering that too:
//
//   - if nothing is known of the value, and those that came into probation lately were not
//     used before the next came: lookups of random keys, not such in key order. One in eight
//     is taken in all the same, to see whether that has changed.
//   - if it was asked for before, but the hand of main stands at a value that was used in its
//     turn. The hand moves on by three values, so that what is no longer used is found. Where all values
//     are of one heat, as the blocks of random keys are, none displaces another.
//
// With a cache of a tenth of the blocks, a lookup of a random key took 3.7 us of processor time
// with the first rule where it had taken 4.6; with a cache of nine tenths it made 0.05
// allocations with the second where it had made 0.21, and was faster by a tenth.
//
// Hits in probation earn nothing, and that is the point: Gets in key order touch
// one block some thirty times within microseconds and then never again. The same
// scan makes every block look "visited" to SIEVE (NSDI'24) or S3-FIFO (SOSP'23).
// The queues are those of 2Q (VLDB'94) with S3-FIFO's two-bit CLOCK for its LRU:
// the hand takes hits beyond the third for three.
//
// Hit ratio in percent, 2,000 entries of one size (BenchmarkHitRatio; scans are
// not counted, their blocks are touched as often as said, at once):
//
//	trace                                       LRU  SIEVE  S3-FIFO  this
//	zipf 0.8 over 20 times the cache           35.5   44.6     45.7  46.7
//	zipf 0.99 over 20 times the cache          62.4   69.1     69.5  70.2
//	uniform over twice the cache               50.0   50.1     50.0  50.2
//	loop over 1.2 times the cache               0.0    0.0     71.0  83.6
//	zipf 0.9 and scans, 1 touch                50.2   64.0     64.9  65.8
//	zipf 0.9 and scans, 30 touches             50.4   46.7     52.9  66.1
//	hot set of 0.8 of the cache, long scan, 1  62.8   99.4     99.3  99.6
//	the same, 30 touches                       62.8   54.4     59.5  99.6
//	hot set of 0.6 of the cache that moves     74.3   63.7     74.0  71.9
//
// The last is what the second rule costs: 73.5 without it, where the loop had 62.0.
// With SIEVE for the main queue, the moving hot set lost 3 points, and one that was
// replaced altogether 11: CLOCK is the steadier one.
//
// # Two forms of a value
//
// A value may have a small form, which costs its readers something at each use,
// and a large one (NewWithForms). The owner loads the large form while there is
// room and the small one afterwards, and Replace puts the large form back where a
// value is Hot: used four times as often, since the hand passed it, as the values that
// the hand meets were in their turn, and eight times at least. So many uses outweigh a
// miss of what goes for it. In the main queue the hand evicts a large form that was
// used less than that average, or less than four times, with a ghost, since it is
// better loaded again in small.
//
// Both follow the pressure: nothing that fits is evicted for its form, and what is
// hot is so beside the others, so that values that are drawn alike stay small. Misses and uses of small
// forms in percent (BenchmarkTwoForms), of 31,000 values of 2.4 and 4.4 KB that are
// drawn alike, in rounds of 75,000:
//
//	budget     round 1      round 2      round 3      round 16
//	128 MiB    37.7,  0.0    3.4,  0.1    0.7,  1.9    0.0,  3.3
//	90 MiB     41.6,  6.3   15.6, 32.9    5.7, 54.7    0.0, 67.3
//	64 MiB     50.8, 13.4   23.1, 60.3   13.7, 80.8    9.0, 91.0
//	11 MiB     87.0, 10.0   84.3, 15.7   84.4, 15.6   84.4, 15.6
//
// Where making the small form takes a while, and something cheaper will do at first, Busy tells
// whether what comes in will be used often enough.
//
// With a fixed number of eight uses for hot, 90 MiB missed 1.9 % in round 16; with
// twice the average for large forms to stay, zipf 0.8 in 64 MiB missed 3.9 % instead of
// 5.0, but used small forms for 48 instead of 39 %.
//
// # Shards and the budget
//
// Inserts and evictions take a lock of the slot's shard, chosen by the slot's
// address. There are up to four shards for each processor, but none has a share
// of under 2^20 units: caches of up to 2^21 units less one, thus any cache that
// counts in pieces, have one shard and one order of eviction. The share only says
// where room is made first; the budget is one number for all shards, so a value
// larger than a share still fits, at the expense of the other shards. A value
// larger than the whole budget is handed out and not kept.
//
// Lock order: who holds a shard's lock takes no other, save Metrics, which takes
// all in the order of their index. Neither load nor onEvict runs under a lock.
package cache
