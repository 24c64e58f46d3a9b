// Package memtable is the run in memory: a skiplist of internal keys in one
// arena, which takes the newest writes until it is full and is then written out
// as a table.
//
// # Promises
//
// Entries are only ever added. Add copies key and value, takes no lock, and is
// safe beside other Adds and any readers: a new node becomes visible by one
// compare-and-swap on the bottom level. Get and iterators take no lock, wait
// for nobody and allocate nothing (making an iterator allocates the iterator).
// What they return points into the arena, must not be changed, and stays good
// for as long as anyone refers to it: the garbage collector is what frees a
// memtable, so a reader pins what it reads by holding it.
//
// A memtable knows sequence numbers only as part of the order. That a batch
// becomes visible as a whole is its caller's business, by publishing the
// sequence when every entry has been added.
//
// # The arena
//
// All nodes live in one slice of uint32 that is allocated with the memtable and
// refer to each other by 32-bit offsets, so the garbage collector sees one
// object without pointers, whatever the number of entries. On Linux it lies on
// large pages where the system has them. Offsets count bytes from the head's own
// place in the arena:
//
//	+------------+--------+--------+-----+--------+-----------+
//	| head tower | head   | node   | ... | node   | free      |
//	+------------+--------+--------+-----+--------+-----------+
//	  44 bytes   ^ 16 bytes                       ^           ^
//	             offset 0                         Size        Capacity
//
// A node is drawn around its offset. Links are in the machine's byte order: no
// node reaches the disk.
//
//	                    offset
//	+----------+-------+---------+------+--------+----------+----------+---------+-------+-----+
//	| next h-1 |  ...  | next[0] | prev | keyLen | valueLen | user key | trailer | value | pad |
//	+----------+-------+---------+------+--------+----------+----------+---------+-------+-----+
//
//	at        size  meaning
//	-4*level  4     next[level]: offset of the successor on that level, 0 at the end
//	+4        4     prev: offset of a predecessor on the bottom level, 0 for the head
//	+8        4     length of the user key, k
//	+12       4     length of the value, v
//	+16       k     user key
//	+16+k     8     trailer, fixed64 little-endian, as package base has it: behind the
//	                user key it makes an internal key that iterators show as it stands
//	+24+k     v     value
//	+24+k+v   0-3   padding to a multiple of 4
//
// The entry ("key", 7, KindSet) -> "val", of height 1 and alone in its
// memtable, is at offset 16 and takes 32 bytes (here on a little-endian
// machine):
//
//	00 00 00 00  00 00 00 00  03 00 00 00  03 00 00 00      next[0], prev, lengths
//	6b 65 79  01 07 00 00 00 00 00 00  76 61 6c  00 00      user key, trailer, value, padding
//
// # The list
//
// A node reaches each further level with probability 1/4 (Pugh, Skip Lists,
// CACM 33(6), 1990); 1/2 searched no faster and takes more room. The bottom
// level is linked both ways and closed to a ring through the head. Links
// forward are exact; a link back may lag behind the insertions under way, never
// behind a finished one, and always names an earlier node, so that Prev steps
// to it and, if need be, forward again (see linkBack).
//
// # The guide
//
// From a thousand entries on, a search in the bytewise order begins in a sorted array of
// the nodes of one level, which replaces the walk down to there (see guide). It makes
// an insertion among 100,000 entries in random order, and a Get, a third
// cheaper, and takes 12 bytes for each 16 entries beside the arena. Insertions that go on
// in ascending order do without.
//
// An Inserter whose keys do not come in order has a list of its own besides, of all nodes
// (see ranks): it finds a node's neighbours without touching other nodes, which takes a third
// off the processor time of an insertion in random order, and takes some 17 bytes an entry, of
// memory that it keeps for the next memtable.
//
// # The filter in front
//
// A lookup that the memtable cannot answer need not walk the list: a small bloom
// filter over the user keys, tombstones' included, mostly says so first. It is
// asked with a 64-bit hash, which a lookup computes once and uses for the filters
// of tables as well. It takes a byte for each 64 of the arena, in memory of its
// own, so what it says of absent keys depends on how large the entries are when
// the arena is full; until then it errs less:
//
//	key + value     bits an entry   false positives, expected
//	16 + 1000             130               under 0.01 %
//	16 + 100               18                  0.4 %
//	16 + 16                 7                  4 %
//	8 + 8                   5                  10 %
//
// See runFilter for why it never denies an entry. Comparers that call keys equal
// whose bytes differ have no filter.
package memtable
