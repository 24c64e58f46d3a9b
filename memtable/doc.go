// Package memtable implements the sorted run in memory: a skiplist of internal keys in one arena. It receives the
// newest writes until it is full, and is then written out as a table.
//
// # Promises
//
// Entries are added and never removed. Add copies key and value, takes no lock, and may run concurrently with other
// Adds and any readers: a new node becomes visible by one compare-and-swap on the bottom level. Get and iterators take
// no lock, never wait, and allocate nothing (except NewIter, which allocates the iterator). The slices that they return
// point into the arena and must not be changed. They stay valid for as long as they are referenced, because a memtable
// is freed by the garbage collector.
//
// To a memtable, sequence numbers are only part of the order. To make a batch visible as a whole, the caller publishes
// the batch's last sequence number after it has added every entry.
//
// # The arena
//
// All nodes are stored in one slice of uint32 that is allocated with the memtable. They refer to
// each other by 32-bit offsets, so the garbage collector sees one object without pointers. On Linux
// the arena uses huge pages if the system has them. node.go has the layout of a node.
//
// # The list
//
// A node reaches each further level with probability 1/4 (Pugh, Skip Lists, CACM 33(6), 1990). With 1/2, searches were
// no faster and nodes were larger. The bottom level is linked both ways and closed to a ring through the head. Forward
// links are exact. A back link may miss nodes whose insertion is under way, but no finished insertion. It always points
// to an earlier node, so Prev follows it and then, if necessary, goes forward again (see linkBack).
//
// # The guide
//
// With a thousand entries or more, a search in bytewise order begins with a binary search in a sorted array of the
// nodes of one level, instead of walking down to that level (see guide). It makes random insertions among 100,000
// entries, and Gets, a third cheaper, and uses 12 bytes per 16 entries in addition to the arena. Insertions in
// ascending order do not need it.
//
// An Inserter whose keys do not come in order also has its own sorted list of all nodes (see ranks), in which it finds
// a node's neighbours without loading other nodes. It takes a third off the processor time of a random insertion. It
// uses about 17 bytes per entry, in memory that the Inserter keeps for the next memtable.
//
// # The filter
//
// A lookup of an absent key usually does not walk the list, because a small Bloom filter over the user keys (including
// those of tombstones) rules the key out first. The filter is probed with a 64-bit hash, which a lookup computes once
// and also uses for the filters of tables. It uses a byte for each 64 of the arena, in separate memory, so its
// false-positive rate when the arena is full depends on the size of the entries. Before that the rate is lower:
//
//	key + value     bits per entry  false positives, expected
//	16 + 1000             130               under 0.01 %
//	16 + 100               18                  0.4 %
//	16 + 16                 7                  4 %
//	8 + 8                   5                  10 %
//
// See runFilter for why it has no false negatives. There is no filter if the comparer may call keys equal whose bytes
// differ. One that was omitted (see OmitFilter) is not asked until lookups have made it.
package memtable
